// Calls of front ends besides single tensors: devices, the latest values.
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

// No machine has that many.
constexpr Device kNoSuchDevice{DeviceKind::kCuda, 63};

size_t CountTroubles(const Job& job) {
  size_t count = 0;
  for (const Event& event : job.Events(EventKind::kDegraded))
    count += event.message.find("on CUDA device 63 cannot be measured: ") != std::string::npos;
  return count;
}

TEST_CASE(
    "tensors on a device without an engine: one event has the reason, the rows are counted, all others are written") {
  StartedJob job(ConfigText({.collect_times = 3}));
  job.TrainStep();
  const float value = 1;
  TensorView view = DenseView(&value, DType::kFloat32, nullptr, 0);
  view.device = kNoSuchDevice;
  for (int step = 0; step < 3; ++step) {
    REQUIRE(job.monitor->recorder().collecting());
    job.monitor->recorder().Observe({0}, view);
    const Observation at[] = {{0}, {0}};
    const TensorView views[] = {view, view};
    job.monitor->recorder().ObserveBatch(at, views, 2);
    job.TrainStep();
  }
  job.Close();
  CHECK(CountTroubles(job) == 1);
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3});
  const Ledger ledger = job.Events(EventKind::kDrained).at(0).ledger;
  CHECK(ledger.dropped[static_cast<size_t>(DropReason::kUnsupported)] == 9);
}

TEST_CASE("preparing a device without an engine is one event, before any step is collected") {
  StartedJob job(ConfigText(Off()));
  job.monitor->PrepareDevice(kNoSuchDevice);
  job.monitor->PrepareDevice(kNoSuchDevice);
  CHECK(job.WaitFor(EventKind::kDegraded));
  job.TrainSteps(3);
  job.Close();
  CHECK(CountTroubles(job) == 1);
}

TEST_CASE("the latest values of a kind can be asked for in mid-training") {
  StartedJob job(ConfigText({.collect_times = 3}), 2);
  job.TrainStep();
  job.model.TrainStep(job.monitor->recorder(), job.monitor->step());
  const std::vector<LatestValue> values = job.monitor->Latest(SiteKind::kGradReduced);
  REQUIRE(values.size() == 2);
  CHECK(values[0].record.step == 1);
  CHECK(values[0].name != values[1].name);
  CHECK(values[0].record.values[0].stat == Stat::kNorm);
  CHECK(job.monitor->Latest(SiteKind::kParamOrigin).empty());
  job.Close();
}

TEST_CASE("the latest values of a module are those of all micro-batches of its last step, each with its tag") {
  Job job(ConfigText({.collect_times = 2}, R"(, "xy_distribution": true, "monitor_mbs_grad": true)"), 2, 3);
  job.options.rank = 5;
  job.options.world_size = 8;
  job.options.keep_latest = true;
  job.Start();
  job.TrainSteps(5);
  const auto tags = [&](SiteKind kind) {
    std::vector<std::string> found;
    for (const LatestValue& value : job.monitor->Latest(kind)) {
      CHECK(value.record.step == 2);
      found.push_back(value.tag);
    }
    return found;
  };
  CHECK(tags(SiteKind::kActv).size() == 2 * 2 * 3);
  CHECK(tags(SiteKind::kActv).at(1) == "0:layers.0.input:1/rank5/actv");
  CHECK(tags(SiteKind::kGradUnreduced).at(5) == "0:layers.1.weight:2/rank5/acc_grad");
  CHECK(tags(SiteKind::kGradReduced) ==
        std::vector<std::string>{"0:layers.0.weight/rank5/post_grad", "0:layers.1.weight/rank5/post_grad"});
}

}  // namespace
}  // namespace stepwatch::testing
