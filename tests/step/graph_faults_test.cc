// Graphs whose device is late, refuses or is lapped: rows are dropped and counted, never guessed.
#include "tests/step/graph_run.h"

namespace stepwatch::step {

using namespace drain;
namespace {

TEST_CASE("a device that is behind does not hold the training up, and its rows come in their frames") {
  CapturedRun run;
  run.device().Stall();
  for (int step = 1; step <= 3; ++step) {
    run.Observe(7);
    run.ReplayStep(5, 1);
  }
  CHECK(run.sink->writes() == 0);
  run.device().Resume();
  run.Finish();
  CHECK(run.sink->records().size() == 6);
  CHECK(run.sink->writes() == 3);
  CHECK(run.drained[1].ledger.dropped_total() == 0);
}

TEST_CASE("what a device has not ended after 5 s is dropped as late, row by row") {
  GraphRun run;
  run.Start();
  auto pending = run.MakePending({1, {0, 1, 1000000}, 8});
  const std::shared_ptr<Pipeline> pipeline = pending->pipeline;
  run.Put(std::move(pending));
  run.plane.plans.EndStep();
  run.Capture({{0}, {1}});
  run.device().Stall();
  run.Observe(7);
  run.ReplayStep(1, 2);
  REQUIRE(Eventually([&] { return pipeline->ring.Empty(); }));
  run.PassTime(std::chrono::milliseconds(0));
  run.PassTime(std::chrono::milliseconds(4999));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(run.sink->writes() == 0);
  run.PassTime(std::chrono::milliseconds(1));
  REQUIRE(Eventually([&] { return run.sink->writes() == 1; }));
  run.device().Resume();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kLate) == 2);
  CHECK(run.drained[1].ledger.written == 1);
}

TEST_CASE("closing gives up at its deadline on a device that never ends its steps") {
  CapturedRun run;
  run.device().Stall();
  run.ReplayStep(1, 1);
  run.ReplayStep(2, 1);
  run.Finish(std::chrono::milliseconds(30));
  CHECK(run.Dropped(1, DropReason::kLate) == 2);
}

TEST_CASE("rows that later steps have overwritten before they were read are dropped as late") {
  GraphRun run;
  run.Begin();
  run.Capture({{0}});
  for (int step = 0; step < 70; ++step) run.ReplayStep(1, 1);  // nobody drains yet
  run.Start();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kLate) == 70 - device::FakeDevice::kDepth);
  CHECK(run.drained[1].ledger.written == device::FakeDevice::kDepth);
}

TEST_CASE("observations beyond the places for them are reported and counted once, the others go on", "[slow]") {
  GraphRun run;
  run.Start();
  run.Begin();
  constexpr size_t kSlots = device::FakeDevice::kGraphSlots;
  run.Capture(std::vector<Observation>(kSlots + 3, Observation{0}));
  run.Produced(1, 3);
  run.ReplayStep(1, kSlots);
  run.ReplayStep(1, kSlots);
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kUnsupported) == 3);
  CHECK(run.drained[1].ledger.written == 2 * kSlots);
  REQUIRE(run.diagnostics.size() == 1);
  CHECK(run.diagnostics[0].find("Options::cuda_graph_slots") != std::string::npos);
}

TEST_CASE("a step that ends inside of a capture is no end on the device: the graph's first replay has its own step") {
  GraphRun run;
  run.Start();
  run.Begin();
  run.device().Block(true);
  run.Capture({{0}});
  run.plane.plans.EndStep();  // optimizer.step was captured, and ended step 1
  run.device().Block(false);
  run.ReplayStep(2, 1);
  run.ReplayStep(3, 1);
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{2, 2}, {3, 3}});
}

TEST_CASE("what may have been replayed before a step that ended inside of another capture is dropped, not guessed") {
  CapturedRun run;
  run.ReplayStep(1, 1);
  run.device().Replay();
  run.device().Block(true);
  run.Capture({{1}});
  run.plane.plans.EndStep();
  run.device().Block(false);
  run.ReplayStep(3, 2);
  run.ReplayStep(4, 2);
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{1, 1}, {3, 3}, {4, 4}, {4, 4}});
  CHECK(run.sink->records()[1].site == 1);
  CHECK(run.Dropped(1, DropReason::kLate) == 1);
}

TEST_CASE("a device that refuses the end of a step is reported, and its step has no rows") {
  CapturedRun run;
  run.device().Refuse(StatusCode::kUnavailable);
  run.ReplayStep(1, 0);
  run.device().Refuse(StatusCode::kOk);
  run.ReplayStep(2, 1);
  run.ReplayStep(3, 1);
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{2, 2}, {3, 3}});
  REQUIRE(run.diagnostics.size() == 1);
  CHECK(run.diagnostics[0].find("could not measure") != std::string::npos);
}

TEST_CASE("a row that is measured for a capture and discarded leaves no trace") {
  GraphRun run;
  run.Start();
  run.Begin();
  run.device().CaptureOn(run.View().stream);
  Record record;
  REQUIRE(run.plane.recorder.Measure({0}, run.View(), &record));
  run.plane.recorder.Discard(record);
  run.device().CaptureOn(nullptr);
  run.ReplayStep(1, 0);
  run.Capture({{1}});
  run.ReplayStep(2, 1);
  run.Finish();
  CHECK(StepsAndNorms(run) == Rows{{2, 2}});
}

TEST_CASE("a ring without room for the end of a graph's step counts its rows as dropped") {
  GraphRun run;
  run.Begin({1, {0, 1, 1000000}, 8}, 64);
  run.Capture({{0}, {1}});
  run.Produced(1, 2 * 70);
  for (int step = 0; step < 70; ++step) run.ReplayStep(1, 0);  // nobody drains yet
  run.Start();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kRingFull) > 0);
  CHECK(run.drained[1].ledger.written > 0);
}

}  // namespace
}  // namespace stepwatch::step
