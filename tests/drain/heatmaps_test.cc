// Columns of heat maps on their way from the step thread to the sinks.
#include <cstdint>
#include <string>
#include <vector>

#include "src/step/heatmap_queue.h"
#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

HeatmapColumn ColumnOf(SiteId site, uint64_t count = 1) {
  HeatmapColumn column;
  column.site = site;
  column.counts[0] = count;
  return column;
}

// Remembers "step: records columns" of each frame.
class FrameList final : public Sink {
 public:
  WriteResult Write(const RecordLayout&, const StepFrame& frame) override {
    frames += std::to_string(frame.step) + ": " + std::to_string(frame.count);
    for (size_t i = 0; i < frame.column_count; ++i)
      frames += " [" + std::to_string(frame.columns[i].site) + " " + std::to_string(frame.columns[i].counts[0]) + "]";
    frames += "\n";
    return {Status(), frame.count};
  }
  std::string frames;
};

// Site 0 has records, sites 1 and 2 have heat maps.
std::shared_ptr<const plan::Plan> MixedPlan() {
  auto plan = std::make_shared<plan::Plan>(*MakePlan({1, {0, 2, 3}, 3, SiteKind::kAdamUpdate}));
  plan->layout.sites[0].kind = SiteKind::kGradReduced;
  return plan;
}

TEST_CASE("columns reach the sinks with the frame of their step, or make one, and count in no ledger") {
  const auto list = std::make_shared<FrameList>();
  Run run;
  run.Start({list});
  run.plane.recorder.ObserveHeatmaps({ColumnOf(1)});  // no plan is in force
  run.Put(run.MakePending(MixedPlan()));
  run.plane.plans.ApplyBetweenSteps();
  run.Observe();
  run.plane.recorder.ObserveHeatmaps({ColumnOf(1, 5), ColumnOf(2, 6)});
  run.plane.plans.EndStep();
  run.plane.recorder.ObserveHeatmaps({ColumnOf(1)});  // not a collected step
  run.plane.plans.EndStep();
  run.plane.recorder.ObserveHeatmaps(
      {ColumnOf(1, 7), ColumnOf(0), ColumnOf(3)});  // no heat maps: site 0, and none at all
  CHECK(run.plane.running.observed());
  run.plane.recorder.ObserveHeatmaps({ColumnOf(2, 8)});
  run.plane.plans.EndStep();
  run.plane.plans.EndStep();
  run.Observe();
  run.plane.plans.EndStep();
  REQUIRE(run.WaitDrained(1));
  CHECK(run.drained[1].ledger.produced == 2);
  CHECK(run.drained[1].ledger.written == 2);
  run.Finish();
  CHECK(list->frames == "0: 1 [1 5] [2 6]\n2: 0 [1 7] [2 8]\n4: 1\n");
  CHECK(run.diagnostics.empty());
}

TEST_CASE("a sink is flushed behind a frame of columns alone") {
  StartedRun run;
  run.Put(run.MakePending(MixedPlan()));
  run.plane.plans.ApplyBetweenSteps();
  run.plane.recorder.ObserveHeatmaps({ColumnOf(1)});
  run.plane.plans.EndStep();
  CHECK(run.drain.Flush(std::chrono::seconds(10)));
  CHECK(run.sink->writes() == 1);
  CHECK(run.sink->flushes() == 1);
}

TEST_CASE("a plan is not drained while the sink refuses a frame of columns alone") {
  Run run;
  run.sink->SetScript(Refuse);
  run.Start();
  run.Put(run.MakePending(MixedPlan()));
  run.plane.plans.ApplyBetweenSteps();
  run.plane.recorder.ObserveHeatmaps({ColumnOf(1)});
  run.plane.plans.EndStep();
  run.PublishStop();
  run.plane.plans.EndStep();
  REQUIRE(Eventually([&] { return run.sink->writes() > 1; }));
  run.Collect();
  CHECK(run.ended.size() == 1);
  CHECK(run.drained.empty());
  run.sink->SetScript(nullptr);
  CHECK(run.WaitDrained(1));
}

TEST_CASE("the queue gives each step its columns, those of several calls together") {
  step::HeatmapQueue queue;
  CHECK_FALSE(queue.Take(0));
  queue.Put({3, {ColumnOf(1)}});
  queue.Put({3, {ColumnOf(2)}});
  queue.Put({5, {ColumnOf(1)}});
  CHECK_FALSE(queue.Take(2));
  const auto taken = queue.Take(3);
  REQUIRE(taken);
  CHECK(taken->step == 3);
  CHECK(taken->columns.size() == 2);
  CHECK_FALSE(queue.Take(3));
  CHECK(queue.Take(5));
  CHECK(queue.lost() == 0);
}

TEST_CASE("the queue counts what nobody has taken") {
  step::HeatmapQueue queue;
  for (int64_t step = 0; step < 70; ++step) queue.Put({step, {ColumnOf(1)}});
  CHECK(queue.lost() == 70 - step::HeatmapQueue::kStepsMax);
  const auto taken = queue.Take(69);
  REQUIRE(taken);
  CHECK(taken->step == 69);
  CHECK(queue.lost() == 69);
}

}  // namespace
}  // namespace stepwatch::drain
