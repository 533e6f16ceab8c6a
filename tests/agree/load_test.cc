// How many requests a job makes of its store: counted on a clock that jumps from one wish to be woken to the next.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/agree/coordinator.h"
#include "tests/agree/idle_rank.h"
#include "tests/agree/jumping_clock.h"
#include "tests/catch.h"
#include "tests/rounds.h"

namespace stepwatch::agree {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CountedJob;

// A step takes 100 ms, on all ranks at once.
class CountedRank final : public IdleRank {
 public:
  explicit CountedRank(CountedJob* job) : IdleRank(0), job_(job) {}
  int64_t arriving() override;
  void Commit(const Proposal& proposal) override {
    plan = proposal.change.plan_id;
    committed_early = arriving() < proposal.at_step;
  }
  void Discard(const Proposal&, const Decision&) override { ++aborts; }
  void Join(const std::string&) override { has_joined = true; }

  PlanId plan = 0;
  int aborts = 0;
  bool has_joined = false, committed_early = false;

 private:
  CountedJob* const job_;
};

// A store answers half a millisecond after it was asked.
class CountedJob {
 public:
  CountedJob(int world, Store::Abilities abilities) : abilities_(abilities) {
    for (int rank = 0; rank < world; ++rank) {
      Settings settings;
      settings.prefix = "job";
      settings.rank = rank;
      settings.world_size = world;
      settings.incarnation = "a" + std::to_string(1000 + rank);
      ranks.push_back(std::make_unique<CountedRank>(this));
      wakes_.push_back({});
      coordinators.push_back(std::make_shared<Coordinator>(
          settings, std::make_shared<CountedStore>(this), ranks.back().get(),
          Coordinator::Dependencies{[this] { return clock_.now(); },
                                    [this](std::function<void()> work) { clock_.At(clock_.now(), std::move(work)); },
                                    [this, rank](Time time) { Wake(static_cast<size_t>(rank), time); }}));
      coordinators.back()->Advance();
    }
  }

  void Run(milliseconds time) { clock_.Run(time); }
  Time now() const { return clock_.now(); }
  int64_t TakeRequests() { return std::exchange(requests_, 0); }

  std::vector<std::unique_ptr<CountedRank>> ranks;
  std::vector<std::shared_ptr<Coordinator>> coordinators;

 private:
  class CountedStore final : public Store {
   public:
    explicit CountedStore(CountedJob* job) : job_(job) {}
    void Set(const std::string& key, const std::string& value, Done done) override {
      job_->listened_.Put(key, value);
      Reply(key, std::move(done));
    }
    void Get(const std::string& key, Done done) override { Reply(key, std::move(done)); }
    void SetOnce(const std::string& key, const std::string& value, Done done) override {
      job_->listened_.values.emplace(key, value);
      Reply(key, std::move(done));
    }
    Abilities abilities() const override { return job_->abilities_; }
    void SetAll(const std::vector<std::string>& keys, const std::string& value, Done done) override {
      for (const std::string& key : keys) job_->listened_.Put(key, value);
      Reply(keys.front(), std::move(done));
    }
    void Append(const std::string& key, const std::string& text, Done done) override {
      job_->listened_.values[key] += text;
      Reply(key, std::move(done));
    }
    void Listen(const std::string& key, Done done) override {
      job_->requests_ += 2;  // to wait, and to remove the key
      job_->listened_.Listen(key, std::move(done));
    }

   private:
    void Reply(const std::string& key, Done done) {
      ++job_->requests_;
      const auto value = job_->listened_.Find(key);
      job_->clock_.After(std::chrono::microseconds(500), [done = std::move(done), value] { done(value); });
    }
    CountedJob* const job_;
  };

  void Wake(size_t rank, Time time) {
    const int64_t serial = clock_.serial() + 1;
    wakes_[rank] = serial;
    clock_.At(time, [this, rank, serial] {
      if (wakes_[rank] == serial) coordinators[rank]->Advance();
    });
  }

  const Store::Abilities abilities_;
  JumpingClock clock_;
  ListenedValues listened_{&clock_};
  int64_t requests_ = 0;
  std::vector<int64_t> wakes_;  // by rank: the newest wish
};

int64_t CountedRank::arriving() {
  return job_->now().time_since_epoch() / milliseconds(100);
}

struct Load {
  int64_t idle_per_second = 0;
  int64_t ballot = 0;
};

Load Measure(int world, Store::Abilities abilities) {
  CountedJob job(world, abilities);
  job.Run(seconds(2));
  for (const auto& rank : job.ranks) REQUIRE(rank->has_joined);
  job.TakeRequests();
  Load load;
  constexpr int64_t kSeconds = 130;  // two looks of those that listen
  job.Run(seconds(kSeconds));
  load.idle_per_second = (job.TakeRequests() + kSeconds - 1) / kSeconds;
  Change change;
  change.plan_id = 1;
  change.sha256 = "abc";
  change.bytes = "{}";
  job.coordinators[0]->Want(change, 1);
  job.Run(milliseconds(400));
  load.ballot = job.TakeRequests();
  for (const auto& rank : job.ranks) {
    REQUIRE(rank->plan == 1);
    REQUIRE(rank->aborts == 0);
    REQUIRE(rank->committed_early);
  }
  for (const auto& coordinator : job.coordinators) coordinator->Stop();
  return load;
}

TEST_CASE("an idle job of a thousand ranks makes hardly a request of a store that listens, and few more for an edit",
          "[slow]") {
  const int world = testing::Rounds(1000, 4);
  const Load load = Measure(world, {true, true});
  INFO(world << " ranks, idle: " << load.idle_per_second << " requests a second; an edit: " << load.ballot);
  CHECK(load.idle_per_second <= 20);
  CHECK(load.ballot <= 12 * world);
}

TEST_CASE("a store that cannot listen is asked once by each rank in a third of a step", "[slow]") {
  const int world = testing::Rounds(30, 3);
  const Load load = Measure(world, {});
  INFO(world << " ranks without a bell, idle: " << load.idle_per_second
             << " requests a second; an edit: " << load.ballot);
  CHECK(load.idle_per_second <= 30 * world);
}

}  // namespace
}  // namespace stepwatch::agree
