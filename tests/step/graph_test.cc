// A training step that is a CUDA graph has rows at every replay.
#include <cmath>
#include <map>

#include "tests/step/graph_run.h"

namespace stepwatch::step {

using namespace drain;
namespace {

constexpr Device kCuda{DeviceKind::kCuda, 0};

TEST_CASE("every replay gives its step the rows of what was captured, described as when it was captured") {
  CapturedRun run({{3, 1, 2, 5}, {6}});
  for (int step = 1; step <= 40; ++step) run.ReplayStep(static_cast<float>(step), 2);
  run.Finish();
  const std::vector<Record> records = run.sink->records();
  REQUIRE(records.size() == 80);
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    CHECK(record.step == static_cast<int64_t>(i / 2 + 1));
    CHECK(record.plan_id == 1);
    CHECK(record.dtype == DType::kFloat32);
    CHECK(record.ndim == 1);
    CHECK(record.dims[0] == 3);
    REQUIRE(record.value_count == 1);
    CHECK(record.values[0].f64 == static_cast<double>(record.step));
    CHECK(record.flags == 0);
    CHECK(record.site == (i % 2 == 0 ? 3 : 6));
    CHECK(record.micro_step == (i % 2 == 0 ? 1 : 0));
    CHECK(record.element == (i % 2 == 0 ? 2 : kNoElement));
    CHECK(record.call == 0);  // the only update of its parameter, whichever number it came with
  }
  CHECK(run.drained[1].ledger.dropped_total() == 0);
}

TEST_CASE("a step in which nothing was replayed has no rows, and eager rows beside a graph's stay") {
  CapturedRun run;
  run.ReplayStep(1, 1);
  run.plane.plans.EndStep();  // as an evaluation does
  run.TrainStep();            // without the graph
  run.Observe(7);
  run.ReplayStep(4, 1);
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{1, 1}, {3, std::sqrt(14.0)}, {4, std::sqrt(14.0)}, {4, 4}});
}

TEST_CASE("of two replays in one step the last one's numbers count") {
  CapturedRun run;
  run.data[0] = 1;
  run.device().Replay();
  run.ReplayStep(2, 1);
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{1, 2}});
}

TEST_CASE("rows of a replay in a step in doubt are marked") {
  CapturedRun run;
  run.ReplayStep(1, 1);
  run.plane.gate.HoldAt(3);
  run.ReplayStep(2, 1);  // begins step 3 in doubt, after the default patience
  run.ReplayStep(3, 1);
  run.plane.gate.Release();
  run.ReplayStep(4, 1);
  run.Finish();
  std::map<int64_t, int> flags;
  for (const Record& record : run.sink->records()) flags[record.step] = record.flags;
  CHECK(flags == std::map<int64_t, int>{{1, 0}, {2, 0}, {3, Record::kInDoubt}, {4, Record::kInDoubt}});
}

TEST_CASE("of several graphs those that were replayed give rows") {
  CapturedRun run;
  run.Capture({{1}});
  for (int step = 0; step < 4; ++step) {
    run.Produced(1, 1);
    run.device().Replay(static_cast<size_t>(step % 2), static_cast<size_t>(step % 2 + 1));
    run.plane.plans.EndStep();
  }
  run.Finish();
  std::vector<SiteId> sites;
  for (const Record& record : run.sink->records()) sites.push_back(record.site);
  CHECK(sites == std::vector<SiteId>{0, 1, 0, 1});
}

TEST_CASE("until something is captured no call is made to a device, and none in steps far from collected ones") {
  GraphRun run;
  run.Start();
  run.engine.Prepare(kCuda);
  run.Begin({1, {0, 10, 1000000}, 8});
  for (int step = 0; step < 25; ++step) run.plane.plans.EndStep();
  CHECK(run.device().graph_calls() == 0);
  while (run.plane.running.number() % 10 != 0) run.plane.plans.EndStep();
  run.Capture({{0}});
  run.ReplayStep(1, 1);
  CHECK(run.device().graph_calls() == 2);  // the end of the step, and off
  CHECK_FALSE(run.device().graphs_on());
  for (int step = 0; step < 8; ++step) run.ReplayStep(2, 0);
  CHECK(run.device().graph_calls() == 2);
  run.ReplayStep(3, 0);
  CHECK(run.device().graphs_on());
  run.ReplayStep(4, 1);
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{30, 1}, {40, 4}});
}

TEST_CASE("a new plan has the rows of the sites that it watches, under their new numbers, in the same graph") {
  CapturedRun run({{1}, {5}});
  run.ReplayStep(1, 2);
  auto plan = std::make_shared<plan::Plan>(*MakePlan({2, {0, 1, 1000000}, 8}));
  plan->layout.sites.erase(plan->layout.sites.begin(), plan->layout.sites.begin() + 4);  // owners 4 to 7
  run.Put(run.MakePending(plan));
  run.ReplayStep(2, 2);  // the last of plan 1
  run.ReplayStep(3, 1);
  auto other = std::make_shared<plan::Plan>(*plan);  // the same positions, another model
  other->layout.plan_id = 3;
  for (PlannedSite& site : other->layout.sites) site.name = "another";
  run.Put(run.MakePending(other));
  run.ReplayStep(4, 1);  // the last of plan 2
  run.ReplayStep(5, 0);
  run.Finish();
  std::vector<std::pair<PlanId, SiteId>> rows;
  for (const Record& record : run.sink->records()) rows.emplace_back(record.plan_id, record.site);
  CHECK(rows == std::vector<std::pair<PlanId, SiteId>>{{1, 1}, {1, 5}, {1, 1}, {1, 5}, {2, 1}, {2, 1}});
}

TEST_CASE("a window ends and another begins: graphs are switched off in between") {
  GraphRun run;
  run.Start();
  run.Begin({1, {0, 1, 2}, 8});
  run.Capture({{0}});
  run.ReplayStep(1, 1);
  CHECK(run.device().graphs_on());
  run.ReplayStep(2, 1);
  CHECK(run.plane.plans.plan_id() == 0);
  CHECK_FALSE(run.device().graphs_on());
  for (int step = 0; step < 5; ++step) run.ReplayStep(3, 0);
  run.PublishPlan({2, {0, 1, 1000000}, 8});
  run.ReplayStep(4, 0);
  CHECK(run.device().graphs_on());
  run.ReplayStep(5, 1);
  run.PublishStop();
  run.ReplayStep(6, 1);
  CHECK_FALSE(run.device().graphs_on());
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{1, 1}, {2, 2}, {9, 5}, {10, 6}});
}

TEST_CASE("closing switches graphs off, which may be replayed ever after") {
  CapturedRun run;
  run.ReplayStep(1, 1);
  run.plane.plans.Close();
  CHECK_FALSE(run.device().graphs_on());
  run.device().Replay();
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{1, 1}});
}

TEST_CASE("what Capture puts into a graph gives rows when a plan comes that watches it") {
  GraphRun run;
  run.Start();
  const PlannedSite site{SiteKind::kGradReduced, Port::kNone, 2, 0, "p"};
  run.plane.graphs.Capture(site, {99, 1}, run.View());  // not capturing: nothing
  run.device().CaptureOn(run.View().stream);
  run.plane.graphs.Capture(site, {99, 1}, run.View());
  TensorView on_cpu = run.View();
  on_cpu.device = {};
  run.plane.graphs.Capture(site, {99, 1}, on_cpu);
  run.device().CaptureOn(nullptr);
  run.ReplayStep(1, 0);
  run.Begin({1, {0, 2, 1000000}, 8});
  while (run.sink->records().empty() && run.plane.running.number() < 4)
    run.ReplayStep(7, run.plane.running.number() % 2 == 0 ? 1 : 0);
  run.Finish();
  REQUIRE(run.sink->records().size() == 1);
  CHECK(run.sink->records()[0].site == 2);
  CHECK(run.sink->records()[0].micro_step == 1);
  CHECK(run.sink->records()[0].step % 2 == 0);
}

TEST_CASE("zeros counted below another eps than the plan's are nan, and that is reported once") {
  GraphRun run;
  run.Start();
  const auto publish_with_eps = [&run](PlanId id, double eps) {
    auto plan = std::make_shared<plan::Plan>(*MakePlan({id, {0, 1, 1000000}, 8}));
    plan->layout.stats = {Stat::kNorm, Stat::kZeros};
    plan->eps = eps;
    run.Put(run.MakePending(plan));
  };
  publish_with_eps(1, 1e-8);
  run.plane.plans.EndStep();
  run.Capture({{0}, {1}});
  run.ReplayStep(1, 2);
  publish_with_eps(2, 0.5);
  run.ReplayStep(2, 2);
  run.ReplayStep(3, 2);
  run.Finish();
  const std::vector<Record> records = run.sink->records();
  REQUIRE(records.size() == 6);
  CHECK(records[2].values[1].f64 == Approx(2.0 / 3));
  CHECK(std::isnan(records[4].values[1].f64));
  CHECK(records[4].values[0].f64 == 3);
  REQUIRE(run.diagnostics.size() == 1);
  CHECK(run.diagnostics[0].find("eps") != std::string::npos);
}

TEST_CASE("the agreement of two captured tensors is a row of its own at every replay") {
  GraphRun run;
  run.Start();
  run.Begin();
  std::vector<float> momentum = {1, 1, 0};
  const int64_t size = 3;
  run.device().CaptureOn(run.View().stream);
  run.plane.recorder.ObserveAgreement({0}, run.View(),
                                      device::OnDevice(DenseView(momentum.data(), DType::kFloat32, &size, 1)));
  run.device().CaptureOn(nullptr);
  run.data = {1, -1, 0};
  run.ReplayStep(1, 1);
  run.ReplayStep(-1, 1);
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{1, 0.5}, {2, static_cast<double>(static_cast<float>(1.0 / 6))}});
  CHECK(run.sink->records()[0].ndim == 0);
}

TEST_CASE("the latest values include those of the steps that graphs have ended") {
  GraphRun run;
  run.drain.KeepLatest();
  run.Start();
  run.Begin();
  run.Capture({{2}});
  run.ReplayStep(1, 1);
  run.ReplayStep(9, 1);
  const std::vector<LatestValue> latest = run.drain.Latest(SiteKind::kGradReduced, std::chrono::seconds(5));
  REQUIRE(latest.size() == 1);
  CHECK(latest[0].record.site == 2);
  CHECK(latest[0].record.values[0].f64 == 9);
}

TEST_CASE("the stream of the replays is the one that was named") {
  GraphRun run;
  run.Start();
  char replay = 0;
  run.plane.graphs.SetReplayStream(kCuda, &replay);
  run.plane.graphs.SetReplayStream({DeviceKind::kCuda, -1}, &replay);
  run.plane.graphs.SetReplayStream({DeviceKind::kCpu, 0}, nullptr);
  run.Begin();
  run.Capture({{0}});
  run.ReplayStep(1, 1);
  CHECK(run.device().replay_stream() == &replay);
}

}  // namespace
}  // namespace stepwatch::step
