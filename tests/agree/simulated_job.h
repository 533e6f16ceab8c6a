// A job without threads, clocks and networks: the production coordinators, a store whose every request is performed,
// answered, delayed or lost by hand, and step threads that move by hand. The invariants are checked after every move.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/agree/coordinator.h"
#include "stepwatch/stores.h"
#include "tests/catch.h"

// REQUIRE counts and remembers; this is asked some million times.
#define MUST(condition) \
  if (!(condition)) FAIL("must hold: " #condition "\nafter" << Tail(history_))

namespace stepwatch::agree {

inline std::string Tail(const std::string& history) {
  constexpr size_t kShown = 1500;
  const size_t seed = history.find(" ", 5);
  return history.size() <= kShown ? history : history.substr(0, seed) + " … " + history.substr(history.size() - kShown);
}

class SimulatedJob;

// The step thread's side of one process, as the data plane does it: a gate, a slot for one plan, a plan in force.
class SimulatedRank final : public RankDelegate {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  SimulatedRank(SimulatedJob* job, int rank, Incarnation incarnation, int64_t step)
      : job_(job), rank_(rank), incarnation_(std::move(incarnation)), arriving_(step), begun_(step) {}

  int64_t arriving() override { return arriving_; }
  int64_t begun() override { return begun_; }
  int64_t HoldAt(int64_t step) override;
  void Release() override { gate_ = kNever; }
  std::optional<Decision> Build(const Proposal& proposal) override;
  void Commit(const Proposal& proposal) override;
  void Discard(const Proposal& proposal, const Decision& decision) override;
  void LeaderIsSilent(std::chrono::milliseconds) override { ++silences_; }
  void Settle(const Settled& settled) override;
  void Join(const std::string& run_id) override { joined_ = run_id; }
  void StoreChanged(const Status& status) override { store_ok_ = status.ok(); }

  // --- step thread ---
  bool at_gate() const { return begun_ < arriving_; }
  void EndStep() {
    ++arriving_;
    if (arriving_ < gate_ || (in_doubt_ && gate_ == doubted_gate_)) Begin(false);
  }
  bool may_go_on() const { return at_gate() && arriving_ < gate_; }
  void GoOn() { Begin(false); }
  void TimeOut() {
    gave_up_ = true;
    doubted_gate_ = gate_;
    Begin(true);
  }

  SimulatedJob* const job_;
  const int rank_;
  const Incarnation incarnation_;
  int64_t arriving_, begun_;
  int64_t gate_ = kNever, doubted_gate_ = kNever;
  std::optional<Proposal> slot_;
  PlanId plan_ = 0;
  bool in_doubt_ = false;
  bool reads_step_before_gate_ = false;  // a fault
  bool gave_up_ = false;                 // waiting at the gate, once or more
  bool late_ = false;                    // applied a commit after its step
  std::string joined_;
  bool store_ok_ = true;
  std::set<std::string> cannot_;  // bytes of configs that it cannot build
  int silences_ = 0;
  std::set<int64_t> dropped_;  // aborted proposals of the session that it knows of
  std::shared_ptr<Coordinator> coordinator_;
  std::chrono::milliseconds clock_ahead_{0};  // of the other ranks' clocks

 private:
  std::optional<Decision> DecisionInStore(int64_t number) const;
  void Begin(bool timed_out);
};

class SimulatedJob {
 public:
  // `is_timeless`: nothing is paced by the clock, and no time ends unless PassAnswerTime or PassVoteTime is called.
  explicit SimulatedJob(int world, int64_t first_step = 0, Store::Abilities abilities = {}, bool is_timeless = false)
      : abilities_(abilities), is_timeless_(is_timeless), world_size_(world) {
    for (int rank = 0; rank < world; ++rank) Start(rank, first_step);
  }
  ~SimulatedJob() {
    for (auto& rank : ranks_) Kill(rank->rank_);
  }

  // --- moves ---
  void Tick(int rank) {
    history_ += " tick" + std::to_string(rank);
    now_ += std::chrono::milliseconds(is_timeless_ ? 1000 : 1);  // the pause after a fault is over then
    at(rank).coordinator_->Advance();
  }
  void EndStep(int rank) {
    history_ += " step" + std::to_string(rank);
    at(rank).EndStep();
  }
  void GoOn(int rank) {
    history_ += " go-on" + std::to_string(rank);
    at(rank).GoOn();
  }
  void TimeOut(int rank) {
    history_ += " time-out" + std::to_string(rank);
    at(rank).TimeOut();
  }
  void Pass(std::chrono::milliseconds time) { now_ += time; }
  // On one rank, which acts on it at once.
  void PassAnswerTime(int rank) { PassOn(rank, kAnswerTime); }
  void PassVoteTime(int rank) { PassOn(rank, kVoteTime + std::chrono::hours(1)); }
  void Want(Mode mode = Mode::kStrict, int64_t not_before = 0) {
    const PlanId id = ++plans_;
    wanted_ = id;
    not_before_ = not_before;
    history_ += " want" + std::to_string(id) + (not_before > 0 ? "@" + std::to_string(not_before) : "");
    WantPlan(id, mode);
  }
  // One without which the job goes on as it is. No proposal is undecided.
  void WantSampling() {
    wanted_before_ = wanted_;
    wanted_ = ++plans_;
    not_before_ = 0;
    history_ += " sampling" + std::to_string(wanted_);
    WantPlan(wanted_, Mode::kStrict, Deed::kSampling);
  }
  void WantPlan(PlanId id, Mode mode, Deed deed = Deed::kEdit) {
    Change change;
    change.mode = mode;
    change.deed = deed;
    change.plan_id = id;
    change.sha256 = "abc";
    change.bytes = "plan " + std::to_string(id);
    at(0).coordinator_->Want(change, id, not_before_);
  }

  // --- the store: a request is performed, then answered; either can fail ---
  struct Request {
    int rank;
    int process;  // 1, 2, ...: which of them asked
    StoreQueue::Call call;
    std::string key, value;
    std::vector<std::string> keys;
    Store::Done done;
    bool is_performed = false, is_answered = false;
    std::optional<std::string> result{};
    Time asked{};
  };
  size_t requests() const { return requests_.size(); }
  const Request& request(size_t i) const { return requests_[i]; }
  void Perform(size_t i) {
    Request& request = requests_[i];
    if (request.is_performed) return;
    using Call = StoreQueue::Call;
    if (request.call == Call::kListen && values_.count(request.key) == 0) return;
    history_ += " perform:" + std::to_string(request.rank) + ":" + request.key;
    request.is_performed = true;
    if (request.call == Call::kSet) values_[request.key] = request.value;
    if (request.call == Call::kSetOnce) values_.emplace(request.key, request.value);
    if (request.call == Call::kAppend) values_[request.key] += request.value;
    for (const std::string& key : request.keys) values_[key] = request.value;
    const auto found = values_.find(request.key);
    request.result = found == values_.end() ? std::nullopt : std::optional<std::string>(found->second);
    if (request.call == Call::kListen) values_.erase(request.key);
  }
  // By the process that asked, which would make it again.
  bool is_late(size_t i) const { return NowOn(requests_[i].rank) - requests_[i].asked >= kAnswerTime; }
  // A listener waits without a limit.
  bool can_be_answered(size_t i) const {
    const Request& request = requests_[i];
    return request.call != StoreQueue::Call::kListen || request.is_performed || values_.count(request.key) != 0;
  }
  void Answer(size_t i) {
    if (!can_be_answered(i)) return;
    Perform(i);
    history_ += " answer";
    Take(i, [](const Request& request) { request.done(request.result); });
  }
  // And a second time, whenever one likes.
  void AnswerTwice(size_t i) {
    Perform(i);
    history_ += " answer-once";
    requests_[i].is_answered = true;
    Store::Done(requests_[i].done)(requests_[i].result);
  }
  void Fail(size_t i) {
    history_ += " fail";
    Take(i, [](const Request& request) { request.done(Status(StatusCode::kUnavailable, "broken pipe")); });
  }
  void Lose(size_t i) {
    history_ += " lose";
    Take(i, [](const Request&) {});
  }
  bool is_performed(size_t i) const { return requests_[i].is_performed; }
  void AnswerAll() {
    for (size_t i = 0; i < requests_.size();)
      if (can_be_answered(i)) {
        Answer(i);
        i = 0;
      } else {
        ++i;
      }
  }

  // --- processes ---
  void Kill(int rank) {
    history_ += " kill" + std::to_string(rank);
    if (at(rank).coordinator_) at(rank).coordinator_->Stop();
    at(rank).coordinator_.reset();
    // Its writes may still arrive at the store.
    const auto is_over = [rank](const Request& each) {
      return each.rank == rank && (each.is_performed || each.call == StoreQueue::Call::kGet);
    };
    requests_.erase(std::remove_if(requests_.begin(), requests_.end(), is_over), requests_.end());
  }
  void Restart(int rank) {
    history_ += " restart" + std::to_string(rank);
    const int64_t step = at(rank).begun_;
    std::set<std::string> cannot = at(rank).cannot_;
    Kill(rank);
    Start(rank, step);
    at(rank).cannot_ = std::move(cannot);
    restarted_.insert(rank);
    if (rank == 0 && wanted_ != 0) WantPlan(wanted_, Mode::kStrict);
  }
  bool alive(int rank) const { return ranks_[static_cast<size_t>(rank)]->coordinator_ != nullptr; }

  // Everything is answered, everybody steps in turn: what is left undone now is undone for ever.
  void RunFairly(int rounds = 400, int64_t steps_every = 8) {
    history_ += " fair";
    const std::string before = history_;
    for (int round = 0; round < rounds; ++round) {
      AnswerAll();
      for (auto& rank : ranks_) {
        if (!rank->coordinator_) continue;
        Pass(std::chrono::milliseconds(5));
        Tick(rank->rank_);
        if (rank->may_go_on()) GoOn(rank->rank_);
        if (round % steps_every == 0 && !rank->at_gate()) EndStep(rank->rank_);
      }
    }
    AnswerAll();
    history_ = before;
  }

  SimulatedRank& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  int world() const { return static_cast<int>(ranks_.size()); }

  // Called by the ranks.
  void OnBegun(const SimulatedRank& rank) {
    // A process that came later has no plan until the next one is agreed on.
    if (rank.in_doubt_ || (rank.plan_ == 0 && restarted_.count(rank.rank_) != 0)) return;
    if (!is_strict_) return;
    const auto [plan, is_first] = plan_of_step_.emplace(rank.begun_, rank.plan_);
    MUST(plan->second == rank.plan_);
  }
  // The moves of the step thread while the loop thread is at work.
  void Meanwhile(int rank) {
    if (meanwhile_) meanwhile_(rank);
  }
  std::string Decision(int64_t number) const { return Decision(number, session_); }
  std::string Decision(int64_t number, const std::string& session) const {
    const auto found = values_.find("job/" + session + "/d/" + std::to_string(number));
    return found == values_.end() ? "" : found->second;
  }

  std::string history_;
  std::map<std::string, std::string> values_;
  std::map<int64_t, PlanId> plan_of_step_;  // of the rows that are not in doubt
  std::vector<Settled> settled_;
  PlanId wanted_ = 0;         // newest
  PlanId wanted_before_ = 0;  // the newest sampling, which the ranks may not agree on
  int64_t not_before_ = 0;    // the step that it is for
  bool is_strict_ = true;
  int64_t doubts_ = 0;
  std::string session_;
  std::function<void(int rank)> meanwhile_;

 private:
  static constexpr std::chrono::hours kVoteTime{100}, kAnswerTime{10000};  // without pace

  class RankStore final : public Store {
   public:
    RankStore(SimulatedJob* job, int rank) : job_(job), rank_(rank), process_(job->incarnations_) {}
    void Set(const std::string& key, const std::string& value, Done done) override {
      Push({rank_, process_, StoreQueue::Call::kSet, key, value, {}, std::move(done), false, false, {}, {}});
    }
    void Get(const std::string& key, Done done) override {
      Push({rank_, process_, StoreQueue::Call::kGet, key, "", {}, std::move(done), false, false, {}, {}});
    }
    void SetOnce(const std::string& key, const std::string& value, Done done) override {
      Push({rank_, process_, StoreQueue::Call::kSetOnce, key, value, {}, std::move(done), false, false, {}, {}});
    }
    Abilities abilities() const override { return job_->abilities_; }
    void SetAll(const std::vector<std::string>& keys, const std::string& value, Done done) override {
      Request request{rank_, process_, StoreQueue::Call::kSetAll, keys.front(), value, keys, std::move(done)};
      Push(std::move(request));
    }
    void Append(const std::string& key, const std::string& text, Done done) override {
      Push({rank_, process_, StoreQueue::Call::kAppend, key, text, {}, std::move(done), false, false, {}, {}});
    }
    void Listen(const std::string& key, Done done) override {
      Push({rank_, process_, StoreQueue::Call::kListen, key, "", {}, std::move(done), false, false, {}, {}});
    }

   private:
    void Push(Request request) {
      request.asked = job_->NowOn(rank_);
      job_->requests_.push_back(std::move(request));
    }

    SimulatedJob* const job_;
    const int rank_, process_;
  };

  void Start(int rank, int64_t step) {
    Settings settings;
    settings.prefix = "job";
    settings.rank = rank;
    settings.world_size = world_size_;
    settings.incarnation = "a" + std::to_string(++incarnations_);
    if (rank == 0) session_ = settings.incarnation;
    settings.run_id = "run " + settings.incarnation;
    settings.look = std::chrono::milliseconds(400);
    settings.answer_time = std::chrono::milliseconds(40);
    settings.vote_time = std::chrono::milliseconds(400);
    if (is_timeless_) {
      settings.poll = settings.poll_max = settings.busy_poll = settings.poll_for_leader_max = {};
      settings.answer_time = kAnswerTime;
      settings.vote_time = kVoteTime;
      settings.margin = 1;
    }
    auto process = std::make_unique<SimulatedRank>(this, rank, settings.incarnation, step);
    process->coordinator_ = std::make_shared<Coordinator>(
        settings, std::make_shared<RankStore>(this, rank), process.get(),
        Coordinator::Dependencies{[this, rank] { return NowOn(rank); }, [](std::function<void()> work) { work(); },
                                  [](Time) {}});
    if (static_cast<size_t>(rank) == ranks_.size())
      ranks_.push_back(std::move(process));
    else
      ranks_[static_cast<size_t>(rank)] = std::move(process);
  }
  Time NowOn(int rank) const {
    const auto index = static_cast<size_t>(rank);
    return now_ + (index < ranks_.size() ? ranks_[index]->clock_ahead_ : std::chrono::milliseconds(0));
  }
  void PassOn(int rank, std::chrono::milliseconds time) {
    history_ += " time-passes";
    at(rank).clock_ahead_ += time;
    Tick(rank);
  }
  template <class Work>
  void Take(size_t i, Work work) {
    const Request request = std::move(requests_[i]);
    requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
    work(request);
  }

  Time now_{std::chrono::hours(1)};
  std::deque<Request> requests_;
  std::vector<std::unique_ptr<SimulatedRank>> ranks_;
  std::set<int> restarted_;
  PlanId plans_ = 0;
  int incarnations_ = 0;
  const Store::Abilities abilities_;
  const bool is_timeless_;
  const int world_size_;
};

inline std::optional<Decision> SimulatedRank::Build(const Proposal& proposal) {
  if (cannot_.count(proposal.change.bytes) == 0) return std::nullopt;
  return Decision{false, Cause::kCannot, rank_, 0, "no such module", 0};
}

inline void SimulatedRank::Commit(const Proposal& proposal) {
  const std::string& history_ = job_->history_;
  if (begun_ >= proposal.at_step) late_ = true;
  if (job_->is_strict_) {
    if (proposal.change.plan_id == job_->wanted_) MUST(proposal.at_step >= job_->not_before_);
    // Only one change waits at a time, or a rank could pass over one that others apply.
    MUST(!slot_);
    // A rank that obeys a vote has voted: its step thread stood at the gate, or gave up waiting there.
    MUST(!late_ || gave_up_);
    MUST(MeantFor(proposal, rank_) == incarnation_);
    const std::optional<agree::Decision> standing = DecisionInStore(proposal.number);
    MUST(standing && standing->commit);
  }
  slot_ = proposal;
}

inline void SimulatedRank::Discard(const Proposal& proposal, const Decision&) {
  const std::string& history_ = job_->history_;
  const std::optional<agree::Decision> standing = DecisionInStore(proposal.number);
  MUST(!standing || !standing->commit);
  dropped_.insert(proposal.number);
}

// Under the keys of the session that this rank follows.
inline std::optional<Decision> SimulatedRank::DecisionInStore(int64_t number) const {
  return DecisionFrom(job_->Decision(number, joined_.substr(joined_.find(' ') + 1)));
}

inline int64_t SimulatedRank::HoldAt(int64_t step) {
  const int64_t read_before = arriving_;
  job_->Meanwhile(rank_);
  gate_ = step;
  job_->Meanwhile(rank_);
  return reads_step_before_gate_ ? read_before : arriving_;
}

inline void SimulatedRank::Settle(const Settled& settled) {
  job_->settled_.push_back(settled);
  const bool is_given_up = !settled.decision.commit && !settled.retries;
  const bool is_newest = settled.proposal.change.plan_id == job_->wanted_;
  if (settled.proposal.change.deed == Deed::kSampling && is_given_up && is_newest) job_->wanted_ = job_->wanted_before_;
}

inline void SimulatedRank::Begin(bool timed_out) {
  begun_ = arriving_;
  if (timed_out) ++job_->doubts_;
  in_doubt_ = begun_ >= gate_;
  if (slot_ && slot_->at_step <= begun_) {
    const std::string& history_ = job_->history_;
    MUST(slot_->change.plan_id >= plan_ || !job_->is_strict_);
    plan_ = std::exchange(slot_, std::nullopt)->change.plan_id;
  }
  job_->OnBegun(*this);
}

}  // namespace stepwatch::agree
