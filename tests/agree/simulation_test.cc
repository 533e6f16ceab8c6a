// The protocol under random delays, losses, deaths and restarts.
#include <random>

#include "tests/agree/simulated_job.h"
#include "tests/agree/state_text.h"
#include "tests/random_seed.h"
#include "tests/rounds.h"

namespace stepwatch::agree {
namespace {

using std::chrono::milliseconds;

uint32_t FirstSeed() {
  return static_cast<uint32_t>(test::RandomSeed());
}

struct Weather {
  int fail_percent = 0;      // requests that fail, performed or not
  int lose_percent = 0;      // requests that are never answered
  int time_out_percent = 0;  // held step threads that give up
  int restart_permille = 0;
  int want_permille = 30;
  int later_percent = 0;     // of the edits: for a step that is up to 99 steps away
  int sampling_percent = 0;  // of what is wanted while nothing is undecided: a sampling
  bool lock_step = false;    // no rank is more than one step ahead, as with a collective in every step
};

class RandomJob {
 public:
  // Every other pair of seeds has a store that appends and listens.
  RandomJob(uint32_t seed, int world, Weather weather)
      : random_(seed), job_(world, 0, {seed / 2 % 2 == 0, seed / 2 % 2 == 0}), weather_(weather) {
    job_.RunFairly(8);  // all have come
    job_.history_ = "seed " + std::to_string(seed);
  }

  void Run(int moves) {
    for (int i = 0; i < moves; ++i) Move();
  }
  SimulatedJob& job() { return job_; }

 private:
  bool Chance(int of_thousand) { return static_cast<int>(random_() % 1000) < of_thousand; }
  int Below(size_t n) { return static_cast<int>(random_() % n); }

  void Move() {
    job_.Pass(milliseconds(Below(3)));
    if (Chance(weather_.want_permille) && job_.alive(0)) return Want();
    if (Chance(weather_.restart_permille)) return job_.Restart(Below(static_cast<size_t>(job_.world())));
    if (job_.requests() > 0 && Chance(600)) return MoveRequest();
    const int rank = Below(static_cast<size_t>(job_.world()));
    if (Chance(600)) return job_.Tick(rank);
    MoveStep(rank);
  }
  void Want() {
    const Coordinator& leader = *job_.at(0).coordinator_;
    if (!leader.busy() && !leader.defers() && weather_.sampling_percent > 0 && Chance(10 * weather_.sampling_percent))
      return job_.WantSampling();
    const bool is_later = weather_.later_percent > 0 && Chance(10 * weather_.later_percent);
    job_.Want(Mode::kStrict, is_later ? job_.at(0).arriving_ + Below(100) : 0);
  }
  void MoveRequest() {
    const size_t i = static_cast<size_t>(Below(job_.requests()));
    if (!job_.can_be_answered(i) && !Chance(20)) return;  // a connection on which a rank listens may break as well
    if (Chance(300)) return job_.Perform(i);
    if (Chance(10 * weather_.fail_percent)) return job_.Fail(i);
    if (Chance(10 * weather_.lose_percent)) return job_.Lose(i);
    job_.Answer(i);
  }
  void MoveStep(int index) {
    SimulatedRank& rank = job_.at(index);
    if (rank.may_go_on()) return job_.GoOn(index);
    if (rank.at_gate()) {
      if (Chance(10 * weather_.time_out_percent)) job_.TimeOut(index);
      return;
    }
    if (!weather_.lock_step) return job_.EndStep(index);
    for (int other = 0; other < job_.world(); ++other)
      if (job_.at(other).begun_ < rank.begun_) return;
    job_.EndStep(index);
  }

  std::mt19937 random_;
  SimulatedJob job_;
  const Weather weather_;
};

// The newest change is in force everywhere, and every rank knows of every abort.
void CheckSettled(SimulatedJob& job) {
  for (int rank = 0; rank < job.world(); ++rank) {
    const std::string history_ = job.history_ + "\nrank " + std::to_string(rank) + ": plan " +
                                 std::to_string(job.at(rank).plan_) + ", wanted " + std::to_string(job.wanted_) + "\n" +
                                 CoordinatorState::TextOf(*job.at(rank).coordinator_);
    MUST(!job.at(rank).coordinator_->busy());
    MUST(job.at(rank).plan_ == job.wanted_);
    MUST(!job.at(rank).in_doubt_);
    MUST(job.at(rank).joined_ == "run " + job.session_);
  }
}

void CheckAbortsAreKnown(SimulatedJob& job) {
  const std::string& history_ = job.history_;
  for (int64_t number = 1; !job.Decision(number).empty(); ++number)
    for (int rank = 0; rank < job.world(); ++rank)
      MUST(job.at(rank).dropped_.count(number) == (DecisionFrom(job.Decision(number))->commit ? 0U : 1U));
}

TEST_CASE("ranks whose messages take any time apply the same plan at every step, lose no edit and learn of every abort",
          "[slow][random]") {
  int64_t commits = 0, aborts = 0;
  for (uint32_t seed = FirstSeed(); seed < FirstSeed() + testing::Rounds(1500U); ++seed) {
    RandomJob random(seed, 2 + static_cast<int>(seed % 3), {.lock_step = seed % 2 == 0});
    random.Run(600);
    random.job().RunFairly(800, 3);
    CheckSettled(random.job());
    CheckAbortsAreKnown(random.job());
    CHECK(random.job().doubts_ == 0);
    for (const Settled& settled : random.job().settled_) ++(settled.decision.commit ? commits : aborts);
  }
  CHECK(commits > testing::Rounds(1500));
  CHECK(aborts > testing::Rounds(1500));
}

TEST_CASE("the same with requests that fail or are never answered, and step threads that give up waiting",
          "[slow][random]") {
  int64_t doubts = 0, late = 0;
  for (uint32_t seed = FirstSeed(); seed < FirstSeed() + testing::Rounds(1500U); ++seed) {
    RandomJob random(seed, 2 + static_cast<int>(seed % 3),
                     {.fail_percent = 10, .lose_percent = 5, .time_out_percent = 30, .lock_step = seed % 2 == 0});
    random.Run(800);
    random.job().RunFairly(800, 3);
    CheckSettled(random.job());
    CheckAbortsAreKnown(random.job());
    doubts += random.job().doubts_;
    for (int rank = 0; rank < random.job().world(); ++rank) late += random.job().at(rank).late_ ? 1 : 0;
  }
  CHECK(doubts > testing::Rounds(100));
  CHECK(late > testing::Rounds(10));  // commits that reached a rank after its step: its rows until then are in doubt
}

TEST_CASE("the same with processes that die and come back, the leader's among them", "[slow][random]") {
  for (uint32_t seed = FirstSeed(); seed < FirstSeed() + testing::Rounds(1500U); ++seed) {
    RandomJob random(seed, 2 + static_cast<int>(seed % 3),
                     {.fail_percent = 5, .lose_percent = 2, .time_out_percent = 20, .restart_permille = 8});
    random.job().Want();
    random.Run(800);
    random.job().Want();  // a rank that came back without a plan takes part in this one
    random.job().RunFairly(1000, 3);
    CheckSettled(random.job());
  }
}

TEST_CASE("the same with edits for later steps: none is applied before its step, and a newer edit takes its place",
          "[slow][random]") {
  for (uint32_t seed = FirstSeed(); seed < FirstSeed() + testing::Rounds(1000U); ++seed) {
    RandomJob random(seed, 2 + static_cast<int>(seed % 3),
                     {.fail_percent = 5, .time_out_percent = 20, .later_percent = 50, .lock_step = seed % 2 == 0});
    random.Run(800);
    random.job().RunFairly(1500, 3);
    CheckSettled(random.job());
    CheckAbortsAreKnown(random.job());
  }
}

TEST_CASE("the same with samplings: an edit takes the place of one, and without one nothing changes",
          "[slow][random]") {
  int64_t commits = 0, superseded = 0;
  for (uint32_t seed = FirstSeed(); seed < FirstSeed() + testing::Rounds(300U); ++seed) {
    RandomJob random(seed, 2 + static_cast<int>(seed % 3),
                     {.fail_percent = 5,
                      .restart_permille = seed % 4 == 0 ? 4 : 0,
                      .want_permille = 15,
                      .later_percent = 20,
                      .sampling_percent = 70,
                      .lock_step = seed % 2 == 0});
    for (int round = 0; round < 4; ++round) {
      random.Run(200);
      random.job().RunFairly(60, 3);  // so that now and then nothing is undecided
    }
    if (seed % 4 == 0) random.job().Want();  // a rank that came back without a plan takes part in this one
    random.job().RunFairly(800, 3);
    CheckSettled(random.job());
    if (seed % 4 != 0) CheckAbortsAreKnown(random.job());
    for (const Settled& settled : random.job().settled_) {
      if (settled.proposal.change.deed != Deed::kSampling) continue;
      commits += settled.decision.commit ? 1 : 0;
      superseded += settled.decision.cause == Cause::kSuperseded ? 1 : 0;
    }
  }
  CHECK(commits > testing::Rounds(100));
  CHECK(superseded > testing::Rounds(10));
}

TEST_CASE("an edit for a step that is past is for the next that the ranks can agree on") {
  SimulatedJob job(2, 50);
  job.RunFairly(8);
  job.Want(Mode::kStrict, 20);
  job.RunFairly(60);
  CheckSettled(job);
}

TEST_CASE("no rank obeys what was meant for the process before it, when it dies and comes back in the midst of a vote",
          "[slow][random]") {
  for (uint32_t seed = FirstSeed(); seed < FirstSeed() + testing::Rounds(1500U); ++seed) {
    RandomJob random(seed, 2 + static_cast<int>(seed % 2), {.restart_permille = 25, .lock_step = seed % 2 == 0});
    random.Run(800);
    random.job().Want();
    random.job().RunFairly(1000, 3);
    CheckSettled(random.job());
    for (int rank = 0; rank < random.job().world(); ++rank) CHECK_FALSE(random.job().at(rank).late_);
  }
}

TEST_CASE("a job that restarts in place obeys nothing of the leader before, whatever stands in the store") {
  SimulatedJob job(2, 0, {true, true});
  job.RunFairly(8);
  job.Want();
  for (int round = 0; round < 40 && job.values_.count("job/a1/v/1") == 0; ++round) {
    job.Pass(milliseconds(5));
    job.Tick(0);
    job.Tick(1);
    for (size_t i = 0; i < job.requests();) job.can_be_answered(i) ? job.Answer(i) : void(++i);
  }
  REQUIRE(job.values_.count("job/a1/v/1") == 1);
  job.Kill(0);
  job.values_["job/a1/d/1"].clear();  // nobody had decided
  job.values_.erase("job/a1/d/1");
  job.Restart(1);
  for (int round = 0; round < 40; ++round) {
    job.Pass(milliseconds(5));
    job.Tick(1);
    for (size_t i = 0; i < job.requests();) job.can_be_answered(i) ? job.Answer(i) : void(++i);
  }
  CHECK(job.at(1).gate_ == SimulatedRank::kNever);
  CHECK(DecisionFrom(job.Decision(1))->cause == Cause::kNewcomer);
  CHECK_FALSE(job.at(1).slot_);
  job.Restart(0);
  job.RunFairly(80);
  CheckSettled(job);
}

TEST_CASE("a rank that dies at any moment leads to aborts that all others see, and never to different plans",
          "[slow][random]") {
  for (uint32_t seed = FirstSeed(); seed < FirstSeed() + 600; seed += testing::Every(7)) {
    RandomJob random(seed, 3, {.time_out_percent = 20});
    random.job().Want();
    random.Run(static_cast<int>(seed % 150));
    random.job().Kill(2);
    random.job().at(2).gate_ = 0;  // its step thread is gone as well
    random.job().Want();
    random.job().RunFairly(1500, 200);
    SimulatedJob& job = random.job();
    const std::string& history_ = job.history_;
    MUST(job.at(0).plan_ == job.at(1).plan_);
    MUST(job.at(0).plan_ != job.wanted_);
    int64_t known = 0;
    for (int64_t number = 1; !job.Decision(number + 1).empty(); ++number) {  // the newest may still be under way
      if (DecisionFrom(job.Decision(number))->commit) continue;
      MUST(job.at(0).dropped_.count(number) == 1 && job.at(1).dropped_.count(number) == 1);
      ++known;
    }
    MUST(known > 0);
    // The edit is not given up: it is tried again for ever.
    MUST(job.at(0).coordinator_->busy());
  }
}

TEST_CASE("with steps that leave time for a round trip, an edit is applied two steps later than one process would") {
  SimulatedJob job(4, 10);
  job.RunFairly(8);
  job.Want();
  const int64_t running = job.at(0).arriving_;
  job.RunFairly(80);
  for (int rank = 0; rank < 4; ++rank) {
    INFO("rank " << rank);
    CHECK(job.plan_of_step_[running + 2] == 0);
    CHECK(job.plan_of_step_[running + 3] == 1);
  }
  CHECK(job.settled_.size() == 1);
}

TEST_CASE("a leader that comes to the step without a decision names the ranks that have not voted") {
  SimulatedJob job(4);
  job.RunFairly(8);
  job.Want();
  // Ranks 1 and 3 do nothing, as if they had no monitor.
  for (int round = 0; round < 200 && job.settled_.empty(); ++round) {
    job.Pass(milliseconds(5));
    job.Tick(0);
    job.Tick(2);
    for (size_t i = job.requests(); i-- > 0;) job.Perform(i);
    job.AnswerAll();
    if (round % 10 == 9) job.EndStep(0);
  }
  REQUIRE(!job.settled_.empty());
  CHECK(job.settled_[0].decision.cause == Cause::kLate);
  CHECK(job.settled_[0].decision.reason == "ranks 1, 3 had not voted: slow, or without a monitor");
}

TEST_CASE("a rank without a message of the leader reports it once") {
  SimulatedJob job(2);
  const auto look = [&job](int times) {
    for (int i = 0; i < times; ++i) {
      job.Pass(milliseconds(10));
      job.Tick(1);
      job.AnswerAll();
    }
  };
  look(25);
  CHECK(job.at(1).silences_ == 0);
  look(25);
  CHECK(job.at(1).silences_ == 1);
  job.RunFairly(8);
  job.Want();
  job.RunFairly(80);
  CHECK(job.at(1).plan_ == 1);
  CHECK(job.at(0).silences_ + job.at(1).silences_ == 1);
}

TEST_CASE("a rank that cannot build its plan ends the matter with its reason, and the next edit is free") {
  SimulatedJob job(3);
  job.at(1).cannot_ = {"plan 1"};
  job.Want();
  job.RunFairly(60);
  REQUIRE(job.settled_.size() == 1);
  CHECK(job.settled_[0].decision.cause == Cause::kCannot);
  CHECK(job.settled_[0].decision.rank == 1);
  CHECK_FALSE(job.settled_[0].retries);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(job.at(rank).dropped_ == std::set<int64_t>{1});
    CHECK(job.at(rank).plan_ == 0);
  }
  job.Want();
  job.RunFairly(60);
  for (int rank = 0; rank < 3; ++rank) CHECK(job.at(rank).plan_ == 2);
}

TEST_CASE("best effort: a rank that learns of it too late follows, and no rank votes") {
  SimulatedJob job(3);
  job.is_strict_ = false;
  job.RunFairly(8);
  job.Want(Mode::kBestEffort);
  for (int i = 0; i < 9; ++i) job.EndStep(2);
  job.RunFairly(60);
  for (int rank = 0; rank < 3; ++rank) CHECK(job.at(rank).plan_ == 1);
  CHECK(job.at(2).late_);
  CHECK(job.Decision(1).empty());
  CHECK(job.values_.count("job/a1/v/1/1") == 0);
}

}  // namespace
}  // namespace stepwatch::agree
