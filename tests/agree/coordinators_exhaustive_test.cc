// Every order of events of a small job: the production coordinators, a store whose requests are performed and answered
// one by one, step threads. A state that was met before is not followed again.
#include <functional>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/agree/choices.h"
#include "tests/agree/simulated_job.h"

namespace stepwatch::agree {
namespace {

constexpr int kRanks = 2;

struct Limits {
  int64_t steps = 3;
  int64_t proposals = 1;
  int edits = 1;
  int restarts = 0;
  int timeouts = 0;
  bool reads_step_before_gate = false;  // a fault that must be found
};

// One path through the job's life.
class Life {
 public:
  explicit Life(const Limits& limits) : limits_(limits), job_(kRanks, 0, {true, false}, true) {
    for (int round = 0; round < 8; ++round) {  // all have come
      for (int rank = 0; rank < kRanks; ++rank) job_.Tick(rank);
      for (size_t n = job_.requests(); n > 0; --n) job_.Answer(0);
    }
    job_.at(1).reads_step_before_gate_ = limits.reads_step_before_gate;
    job_.history_.clear();
  }

  // False: nothing can happen any more.
  bool Move(Choices* choices) {
    std::vector<std::function<void()>> moves;
    AddRequests(&moves);
    for (int rank = 0; rank < kRanks; ++rank) AddSteps(rank, &moves);
    if (edits_ < limits_.edits)
      moves.push_back([this] {
        ++edits_;
        job_.Want();
      });
    if (restarts_ < limits_.restarts)
      moves.push_back([this] {
        ++restarts_;
        job_.Restart(1);
        job_.Tick(1);
      });
    if (moves.empty()) return false;
    moves[choices->Below(moves.size())]();
    return true;
  }
  bool is_within_limits() const { return job_.values_.count("job/a1/p/" + std::to_string(limits_.proposals + 1)) == 0; }

  std::string StateText() {
    std::ostringstream out;
    out << edits_ << restarts_ << timeouts_;
    for (int i = 0; i < kRanks; ++i) {
      const SimulatedRank& rank = job_.at(i);
      out << "|" << rank.arriving_ << "," << rank.begun_ << "," << rank.gate_ << "," << rank.doubted_gate_ << ","
          << rank.plan_ << "," << rank.in_doubt_ << (rank.slot_ ? rank.slot_->number : 0) << rank.gave_up_
          << rank.coordinator_->StateText();
    }
    for (const auto& [key, value] : job_.values_) out << "|" << key << "=" << value;
    for (const auto& [step, plan] : job_.plan_of_step_) out << "|" << step << ":" << plan;
    std::set<std::string> requests;
    for (size_t i = 0; i < job_.requests(); ++i) {
      const SimulatedJob::Request& request = job_.request(i);
      requests.insert(std::to_string(request.process) + request.key + "=" + request.value +
                      std::to_string(request.is_performed));
    }
    for (const std::string& each : requests) out << "|" << each;
    return out.str();
  }
  const SimulatedJob& job() const { return job_; }

 private:
  // What is written is performed at one time and answered at another. What is read is as old as its answer.
  void AddRequests(std::vector<std::function<void()>>* moves) {
    for (size_t i = 0; i < job_.requests(); ++i) {
      const bool is_write = job_.request(i).call != StoreQueue::Call::kGet;
      if (is_write && !job_.is_performed(i))
        moves->push_back([this, i] { job_.Perform(i); });
      else
        moves->push_back([this, i] { job_.Answer(i); });
    }
  }
  void AddSteps(int index, std::vector<std::function<void()>>* moves) {
    const SimulatedRank& rank = job_.at(index);
    moves->push_back([this, index] { job_.Tick(index); });
    if (rank.may_go_on()) return moves->push_back([this, index] { job_.GoOn(index); });
    if (!rank.at_gate() && rank.arriving_ < limits_.steps) moves->push_back([this, index] { job_.EndStep(index); });
    if (rank.at_gate() && timeouts_ < limits_.timeouts)
      moves->push_back([this, index] {
        ++timeouts_;
        job_.TimeOut(index);
      });
  }

  const Limits limits_;
  SimulatedJob job_;
  int edits_ = 0, restarts_ = 0, timeouts_ = 0;
};

void CheckAll(const Limits& limits, size_t states_least) {
  std::unordered_set<size_t> seen;
  size_t paths = 0, commits = 0, aborts = 0;
  for (Choices choices; choices.Begin(); ++paths) {
    Life life(limits);
    while (life.Move(&choices) && life.is_within_limits())
      if (choices.is_beyond_the_path_before() && !seen.insert(std::hash<std::string>()(life.StateText())).second) break;
    for (const Settled& settled : life.job().settled_) ++(settled.decision.commit ? commits : aborts);
  }
  INFO(seen.size() << " states, " << paths << " paths");
  CHECK(commits > 0);
  CHECK(aborts > 0);
  CHECK(seen.size() >= states_least);
}

TEST_CASE("in every order of events two coordinators on a store have the same plan at every step", "[slow]") {
  CheckAll({}, 1000);
}

TEST_CASE("the exploration of coordinators finds the fault of a rank that reads its step before it sets the gate",
          "[!shouldfail]") {
  CheckAll({.reads_step_before_gate = true}, 1);
}

}  // namespace
}  // namespace stepwatch::agree
