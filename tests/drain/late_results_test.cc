// Numbers that come from a device after their step: frames wait for them, in order, and not for ever.
#include <set>

#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

constexpr std::chrono::milliseconds kAlmostDue{4999};
constexpr std::chrono::milliseconds kDue{5000};

// A run of one device whose first plan has begun.
struct BegunRun : Run {
  explicit BegunRun(const RunSetup& setup = OneDevice()) : Run(setup) {
    Start();
    Begin();
  }
};

// Begins plan 1 with the step that comes next; its pipeline.
std::shared_ptr<step::Pipeline> BeginPipeline(Run& run, const PlanSpec& spec = {1, {0, 1, 1000000}, 8}) {
  auto pending = run.MakePending(spec);
  const std::shared_ptr<step::Pipeline> pipeline = pending->pipeline;
  run.Put(std::move(pending));
  run.plane.plans.EndStep();
  return pipeline;
}

// The drain has taken all that is in the rings: what it could pass on is with the sink.
void WaitUntilTaken(Run& run, const step::Pipeline& pipeline) {
  REQUIRE(Eventually([&] { return pipeline.ring.Empty(); }));
  run.PassTime(std::chrono::milliseconds(0));
}

std::vector<int64_t> StepsWritten(const Run& run) {
  std::vector<int64_t> steps;
  for (const Record& record : run.sink->records()) steps.push_back(record.step);
  return steps;
}

TEST_CASE("a row of a tensor on a device is written with the numbers that the device finds later") {
  BegunRun run;
  run.ObserveOnDevice(3);
  run.plane.plans.EndStep();
  CHECK_FALSE(run.sink->writes() > 0);
  run.devices[0].FinishAll();
  REQUIRE(run.WaitWritten(1));
  const Record record = run.sink->records()[0];
  CHECK(record.step == 1);
  CHECK(record.site == 3);
  CHECK(record.dtype == DType::kFloat32);
  CHECK(record.ndim == 1);
  CHECK(record.dims[0] == 3);
  REQUIRE(record.value_count == 1);
  CHECK(record.values[0].f64 == Approx(std::sqrt(14.0)));
  CHECK(record.flags == 0);
}

TEST_CASE("a frame of CPU and device rows is written whole, in the order in which they were seen") {
  BegunRun run;
  for (SiteId site = 0; site < 8; ++site) {
    if (site % 2 == 0)
      run.Observe(site);
    else
      run.ObserveOnDevice(site);
  }
  run.plane.plans.EndStep();
  run.devices[0].FinishNewest(3);
  REQUIRE(Eventually([&] { return run.devices[0].harvested() == 3; }));
  CHECK(run.sink->writes() == 0);
  run.devices[0].FinishAll();
  REQUIRE(run.WaitWritten(8));
  CHECK(run.sink->writes() == 1);
  const std::vector<Record> records = run.sink->records();
  for (SiteId site = 0; site < 8; ++site) CHECK(records[site].site == site);
}

TEST_CASE("frames are written in step order whatever order their results come in") {
  BegunRun run;
  for (int step = 0; step < 3; ++step) {
    run.ObserveOnDevice();
    run.plane.plans.EndStep();
  }
  run.TrainStep();  // nothing of this step is under way, and yet it waits
  run.devices[0].FinishNewest(2);
  REQUIRE(Eventually([&] { return run.devices[0].harvested() == 2; }));
  CHECK(run.sink->writes() == 0);
  run.devices[0].FinishAll();
  REQUIRE(run.WaitWritten(4));
  CHECK(StepsWritten(run) == std::vector<int64_t>{1, 2, 3, 4});
}

TEST_CASE(
    "results that have not come 5 s after the end of their step are dropped as late, the rest of the frame is "
    "written") {
  StartedRun run(OneDevice());
  const auto pipeline = BeginPipeline(run);
  run.Observe(0);
  run.ObserveOnDevice(1);
  run.ObserveOnDevice(2);
  run.plane.plans.EndStep();
  run.TrainStep();
  WaitUntilTaken(run, *pipeline);
  run.devices[0].FinishNewest(1);
  REQUIRE(Eventually([&] { return run.devices[0].harvested() == 1; }));
  run.PassTime(kAlmostDue);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // several rounds of the drain
  CHECK(run.sink->writes() == 0);
  run.PassTime(kDue - kAlmostDue);
  REQUIRE(run.WaitWritten(3));
  CHECK(run.devices[0].discarded() == 1);
  CHECK(StepsWritten(run) == std::vector<int64_t>{1, 1, 2});
  CHECK(run.sink->records()[1].site == 2);
  run.devices[0].FinishAll();  // too late
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kLate) == 1);
  CHECK(run.drained[1].ledger.written == 3);
}

TEST_CASE("a frame of which nothing comes is no frame, and does not keep later ones for longer than its own 5 s") {
  StartedRun run(OneDevice());
  const auto pipeline = BeginPipeline(run);
  run.ObserveOnDevice();
  run.plane.plans.EndStep();
  WaitUntilTaken(run, *pipeline);
  run.PassTime(std::chrono::milliseconds(3000));
  run.ObserveOnDevice();
  run.plane.plans.EndStep();
  run.TrainStep();
  WaitUntilTaken(run, *pipeline);
  run.PassTime(std::chrono::milliseconds(2000));
  REQUIRE(Eventually([&] { return run.devices[0].discarded() == 1; }));
  CHECK(run.sink->writes() == 0);
  run.devices[0].FinishAll();
  REQUIRE(run.WaitWritten(2));
  CHECK(StepsWritten(run) == std::vector<int64_t>{2, 3});
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kLate) == 1);
}

TEST_CASE("closing waits for the results under way") {
  BegunRun run;
  run.ObserveOnDevice();
  run.plane.plans.EndStep();
  run.ObserveOnDevice();
  std::thread device([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run.devices[0].FinishAll();
  });
  run.Finish();
  device.join();
  CHECK(run.drained[1].ledger.written == 2);
  CHECK(run.drained[1].ledger.dropped_total() == 0);
}

TEST_CASE("closing gives up at its deadline: results under way are dropped as late, all else is written") {
  BegunRun run;
  run.Observe();
  run.ObserveOnDevice();
  run.plane.plans.EndStep();
  run.TrainStep(2);
  run.Finish(std::chrono::milliseconds(30));
  CHECK(run.drained[1].ledger.written == 3);
  CHECK(run.Dropped(1, DropReason::kLate) == 1);
  CHECK(run.devices[0].discarded() == 1);
}

TEST_CASE("a plan is drained only when nothing of it is under way, and frames of the next plan wait behind it") {
  BegunRun run;
  run.ObserveOnDevice();
  run.plane.plans.EndStep();
  run.ObserveOnDevice();
  run.Begin({2, {0, 1, 2}, 8});
  run.TrainStep();
  run.TrainStep();
  REQUIRE(run.plane.plans.plan_id() == 0);
  REQUIRE(Eventually([&] {
    run.Collect();
    return run.ended.size() == 2;  // the loop learns at once that windows are over
  }));
  CHECK(run.drained.empty());
  CHECK(run.sink->writes() == 0);
  run.devices[0].FinishAll();
  REQUIRE(run.WaitDrained(2));
  CHECK(run.drained[1].ledger.written == 2);
  CHECK(StepsWritten(run) == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(run.sink->ended() == std::vector<PlanId>{1, 2});
}

TEST_CASE("a plan whose results never come is drained after 5 s, and the next one goes on") {
  StartedRun run(OneDevice());
  const auto pipeline = BeginPipeline(run, {1, {0, 1, 1}});
  run.ObserveOnDevice();
  run.plane.plans.EndStep();
  WaitUntilTaken(run, *pipeline);
  run.Begin({2, {0, 1, 1}});
  run.TrainStep();
  run.PassTime(kDue);
  REQUIRE(run.WaitDrained(2));
  CHECK(run.Dropped(1, DropReason::kLate) == 1);
  CHECK(run.drained[2].ledger.written == 1);
}

TEST_CASE("results beyond those a device may have under way are dropped as ring_full, and places come back") {
  BegunRun run(OneDevice(4));
  for (int i = 0; i < 10; ++i) run.ObserveOnDevice();
  run.plane.plans.EndStep();
  run.devices[0].FinishAll();
  REQUIRE(run.WaitWritten(4));
  for (int i = 0; i < 3; ++i) run.ObserveOnDevice();
  run.devices[0].FinishAll();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kRingFull) == 6);
  CHECK(run.drained[1].ledger.written == 7);
}

TEST_CASE("within one long step results are fetched, so that their places are free again") {
  Run run(OneDevice(8));
  run.devices[0].FinishAtOnce();
  run.Start();
  run.Begin();
  for (int i = 0; i < 50; ++i) {
    REQUIRE(Eventually([&] { return run.devices[0].outstanding() < 8; }));
    run.ObserveOnDevice();
  }
  run.plane.plans.EndStep();
  run.Finish();
  CHECK(run.drained[1].ledger.written == 50);
}

TEST_CASE("a device that hangs holds back no more rows than the backlog may have, and then the ring is full") {
  RunSetup setup = OneDevice();
  setup.backlog_bytes_max = 100 * sizeof(Record);
  StartedRun run(setup);
  run.Begin({1}, 64);
  run.ObserveOnDevice();
  run.plane.plans.EndStep();
  for (int step = 0; step < 100; ++step) {
    run.TrainStep(10);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  run.devices[0].FinishAll();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kRingFull) > 0);
  CHECK(run.drained[1].ledger.written >= 100);
}

TEST_CASE("a full ring gives the ticket of the row that it refuses back to the device") {
  Run run(OneDevice());
  run.Begin({1}, 64);
  for (int i = 0; i < 200; ++i) run.ObserveOnDevice();  // nobody drains yet
  run.plane.plans.EndStep();
  run.devices[0].FinishAll();
  run.Start();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kRingFull) > 0);
  CHECK(run.devices[0].discarded() == run.Dropped(1, DropReason::kRingFull));
}

TEST_CASE(
    "a row that was asked for and is discarded, enqueued too late or for a step that is not collected is given "
    "back to the device") {
  StartedRun run(OneDevice());
  run.Begin({1, {1, 2, 1000000}});
  const float value = 1;
  const TensorView view = device::OnDevice(DenseView(&value, DType::kFloat32, nullptr, 0));
  Record discarded, uncollected, late;
  REQUIRE(run.plane.recorder.Measure({0}, view, &discarded));
  REQUIRE(run.plane.recorder.Measure({0}, view, &uncollected));
  REQUIRE(run.plane.recorder.Measure({0}, view, &late));
  run.plane.recorder.Discard(discarded);
  run.plane.plans.EndStep();
  run.plane.recorder.Enqueue(uncollected);
  run.plane.plans.EndStep();
  run.plane.recorder.Enqueue(late);  // its step has no open frame any more
  run.Produced(1, 1);
  run.plane.recorder.ObserveMissing({0});
  run.Produced(1, 1);
  run.Finish();
  CHECK(run.devices[0].discarded() + run.devices[0].harvested() == 3);
  CHECK(run.devices[0].discarded() >= 2);
  CHECK(run.drained[1].ledger.produced == 2);
}

TEST_CASE("the agreement of two tensors on a device is the scalar that it would be on the CPU") {
  Run run(OneDevice());
  run.devices[0].FinishAtOnce();
  run.Start();
  run.Begin();
  const std::vector<float> gradient = {1, -1, 2}, momentum = {1, 1, 3};
  const int64_t size = 3;
  const TensorView a = DenseView(gradient.data(), DType::kFloat32, &size, 1);
  const TensorView b = DenseView(momentum.data(), DType::kFloat32, &size, 1);
  run.plane.recorder.ObserveAgreement({0}, a, b);
  run.plane.recorder.ObserveAgreement({0}, device::OnDevice(a), device::OnDevice(b));
  run.plane.recorder.ObserveAgreement({0}, device::OnDevice(a), b);  // on two devices: unsupported
  run.Produced(1, 3);
  run.plane.plans.EndStep();
  REQUIRE(run.WaitWritten(2));
  const std::vector<Record> records = run.sink->records();
  CHECK(records[0].values[0].f64 == records[1].values[0].f64);
  CHECK(records[1].ndim == 0);
  CHECK(records[1].dtype == DType::kFloat32);
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kUnsupported) == 1);
}

TEST_CASE("two devices: a frame waits for both, each ticket goes to its own device") {
  BegunRun run(RunSetup{.devices = 2});
  run.ObserveOnDevice(0, 0);
  run.ObserveOnDevice(1, 1);
  run.plane.plans.EndStep();
  run.devices[1].FinishAll();
  REQUIRE(Eventually([&] { return run.devices[1].harvested() == 1; }));
  CHECK(run.sink->writes() == 0);
  run.devices[0].FinishAll();
  REQUIRE(run.WaitWritten(2));
  CHECK(run.devices.asked_for() == 2);
}

TEST_CASE("the reason why tensors cannot be measured is reported once for each device") {
  BegunRun run;
  for (int i = 0; i < 3; ++i) run.ObserveOnDevice(0, 1);
  run.devices[0].Refuse(StatusCode::kUnavailable);
  for (int i = 0; i < 3; ++i) run.ObserveOnDevice(0, 0);
  run.devices[0].Refuse(StatusCode::kUnsupported);
  for (int i = 0; i < 3; ++i) run.ObserveOnDevice(0, 0);
  run.plane.plans.EndStep();
  run.TrainStep();
  run.Finish();
  CHECK(run.Dropped(1, DropReason::kUnsupported) == 9);
  REQUIRE(run.diagnostics.size() == 3);
  std::string all;
  for (const std::string& trouble : run.diagnostics) all += trouble + "\n";
  INFO(all);
  CHECK(all.find("on CUDA device 1 cannot be measured: this machine has 1 devices") != std::string::npos);
  CHECK(all.find("could not measure a tensor on CUDA device 0") != std::string::npos);
  CHECK(all.find("on CUDA device 0 has a dtype or a layout") != std::string::npos);
  CHECK(run.devices.asked_for() == 2);  // each engine is asked for once, also the one that there is not
}

TEST_CASE("an engine that is prepared is there before the first tensor") {
  Run run(OneDevice());
  run.engine.Prepare({DeviceKind::kCuda, 0});
  run.engine.Prepare({DeviceKind::kCuda, 0});
  run.engine.Prepare({DeviceKind::kCpu, 0});
  CHECK(run.devices.asked_for() == 1);
  run.Start();
  run.Begin();
  run.devices[0].FinishAtOnce();
  run.ObserveOnDevice();
  run.Finish();
  CHECK(run.devices.asked_for() == 1);
  CHECK(run.drained[1].ledger.written == 1);
}

TEST_CASE("steps with observers on several threads, a device that answers in any order, and swaps: every row counts") {
  StartedRun run(OneDevice(64));
  std::atomic<bool> done{false};
  std::thread device([&] {
    for (int turn = 0; !done.load(); ++turn) {
      if (turn % 3 == 0)
        run.devices[0].FinishNewest(5);
      else
        run.devices[0].FinishOldest(3);
      std::this_thread::yield();
    }
    run.devices[0].FinishAtOnce();
    run.devices[0].FinishAll();
  });
  for (int step = 0; step < 300; ++step) {
    if (step % 20 == 0) run.PublishPlan({static_cast<PlanId>(step / 20 + 1), {0, 1, 15}, 4});
    std::vector<std::thread> observers;
    for (SiteId site = 0; site < 2; ++site)
      observers.emplace_back([&run, site] {
        for (int i = 0; i < 6; ++i) {
          run.ObserveOnDevice(site);
          run.Observe(site + 2);
        }
      });
    for (std::thread& observer : observers) observer.join();
    run.plane.plans.EndStep();
  }
  done = true;
  device.join();
  run.Finish();
  const std::vector<int64_t> steps = StepsWritten(run);
  CHECK(std::is_sorted(steps.begin(), steps.end()));
  CHECK(run.begun.size() == 15);
}

}  // namespace
}  // namespace stepwatch::drain
