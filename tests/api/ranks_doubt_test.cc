// Ranks at the agreed step that do not know the decision.
#include <set>

#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

// The steps of which rows are marked.
class DoubtSink final : public Sink {
 public:
  WriteResult Write(const RecordLayout&, const StepFrame& frame) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < frame.count; ++i)
      if ((frame.records[i].flags & Record::kInDoubt) != 0) steps_.insert(frame.step);
    return {Status(), frame.count};
  }
  void Discard(const RecordLayout&, const StepFrame&) override {}
  void EndPlan(const RecordLayout&) override {}
  Status Flush() override { return Status(); }

  std::set<int64_t> steps() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return steps_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<int64_t> steps_;  // guarded by mutex_
};

TEST_CASE("a rank at the agreed step without the decision waits its time, marks its rows, and catches up") {
  RankedJob job(2, ConfigText({.collect_times = 1000000, .gradients = false}));
  const auto sink = std::make_shared<DoubtSink>();
  job[1].options.extra_sinks = {sink};
  job[1].options.decision_wait = milliseconds(20);
  job.Start();
  REQUIRE(job.WaitForAll(EventKind::kArmed));
  for (auto& rank : job.ranks) rank->TrainSteps(8);
  // Rank 1 votes, and receives no message from then on.
  job.stores[1]->HoldAfterVote();
  CHECK(job[0].Edit(ConfigText({.collect_times = 4})) == RefreshOutcome::kArmed);
  for (auto& rank : job.ranks) rank->TrainSteps(4);
  MonitorStatus status = job[1].monitor->GetStatus();
  CHECK(status.step == 12);
  CHECK(status.in_doubt);
  CHECK(status.proposed_step == 11);
  CHECK(status.plan_id == 1);
  CHECK(status.decision_waits == 1);
  CHECK(status.decision_timeouts == 1);
  CHECK(status.decision_wait_seconds >= 0.02);
  REQUIRE(job[1].WaitFor(EventKind::kDegraded));
  job.stores[1]->LetGo();
  REQUIRE(job[1].WaitFor(EventKind::kArmed, 2));
  CHECK(job[1].WaitFor(EventKind::kRecovered));
  for (auto& rank : job.ranks) rank->TrainSteps(6);
  CHECK_FALSE(job[1].monitor->GetStatus().in_doubt);
  job.Close();
  CHECK(job[0].Steps("grad_reduced") == Steps{11, 12, 13, 14});
  CHECK(job[1].Steps("grad_reduced") == Steps{13, 14});
  CHECK(job[1].Events(EventKind::kFinished).at(1).step == 14);  // as on all ranks
  CHECK(sink->steps() == std::set<int64_t>{11, 12});
}

TEST_CASE("an abort at the agreed step costs a rank no rows and no doubt") {
  RankedJob job(2, ConfigText({.collect_times = 1000000, .gradients = false}));
  const auto sink = std::make_shared<DoubtSink>();
  job[0].options.extra_sinks = {sink};
  job.Start();
  REQUIRE(job.WaitForAll(EventKind::kArmed));
  for (auto& rank : job.ranks) rank->TrainSteps(8);
  job.stores[1]->Hold();  // rank 1 never learns of it
  job[0].Save(ConfigText({.collect_times = 4}));
  CHECK(job[0].monitor->Refresh(milliseconds(50)) == RefreshOutcome::kTimedOut);
  REQUIRE(Eventually([&] { return job[0].monitor->GetStatus().proposed_step > 0; }));
  // The step of a proposal is final once the roll is called, so this may be later than the one of the status.
  REQUIRE(Eventually([&] {
    job[0].TrainSteps(1);
    return job[0].Count(EventKind::kAborted) > 0;
  }));
  const int64_t trained = job[0].monitor->GetStatus().step;
  CHECK(Has(job[0].Events(EventKind::kAborted).at(0).message, "rank 0 had reached step"));
  CHECK(job[0].monitor->GetStatus().plan_id == 1);
  job.Close();
  CHECK(sink->steps().empty());
  Steps all;
  for (int64_t step = 3; step < trained; ++step) all.push_back(step);
  CHECK(job[0].Steps("param_origin") == all);
}

}  // namespace
}  // namespace stepwatch::testing
