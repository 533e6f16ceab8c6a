// Data plane, drain and the CUDA engine together, over an emulated device: a captured step's rows, bit for bit.
#include <bit>

#include "src/records/record_values.h"
#include "tests/drain/run_fixture.h"
#include "tests/kernels/cuda/engine_fixture.h"

namespace stepwatch::step {

using namespace drain;
namespace {

namespace cuda = kernels::cuda;
using cuda::Stream;

const Stream kCapture = reinterpret_cast<Stream>(1);
const Stream kReplay = reinterpret_cast<Stream>(2);

RunSetup Over(cuda::test::FakeDevice* device) {
  RunSetup setup;
  setup.make_device_engine = [device](int, size_t results) {
    kernels::DeviceEngineOptions options;
    options.slots = results;
    return cuda::Engine::Create(std::make_unique<cuda::test::FakeDriver>(device), options);
  };
  return setup;
}

// The record that the reference would have made.
Record RecordOf(const RecordLayout& layout, const TensorView& view) {
  Record record;
  records::Describe(view, &record);
  records::FillValues(layout, cuda::test::Expected(view, {}), &record);
  return record;
}

std::string Differences(const Record& found, const Record& expected) {
  std::string text;
  if (found.dtype != expected.dtype || found.ndim != expected.ndim || found.dims != expected.dims) text = "shape ";
  if (found.value_count != expected.value_count) return text + "values";
  for (size_t i = 0; i < expected.value_count; ++i)
    if (found.values[i].i64 != expected.values[i].i64) text += StatName(expected.values[i].stat);
  return text;
}

TEST_CASE("a captured step has, at every replay, rows in the reference's bits, with eager rows beside them") {
  cuda::test::FakeDevice device(3);
  StartedRun run(Over(&device));
  run.plane.graphs.SetReplayStream({DeviceKind::kCuda, 0}, kReplay);
  auto plan = std::make_shared<plan::Plan>(*MakePlan({1, {0, 2, 1000000}, 8}));
  plan->layout.stats.clear();
  for (int i = 0; i < kOpCount; ++i) plan->layout.stats.push_back(static_cast<Stat>(i));
  const RecordLayout layout = plan->layout;
  run.Put(run.MakePending(plan));
  run.plane.plans.EndStep();
  run.plane.plans.EndStep();  // step 2 is collected

  std::mt19937_64 random(5);
  std::vector<cuda::test::DeviceTensor> tensors;
  for (int64_t count : {int64_t{3}, int64_t{1000}, int64_t{70000}, int64_t{600000}})
    tensors.push_back(cuda::test::FlatTensor(count % 2 == 0 ? DType::kBFloat16 : DType::kFloat32, count, 0,
                                             kernels::test::Fill::kOrdinary, &random));
  std::vector<Observation> at;
  std::vector<TensorView> views;
  for (size_t i = 0; i < tensors.size(); ++i) {
    at.push_back({static_cast<SiteId>(i)});
    views.push_back(tensors[i].view);
    views.back().stream = kCapture;
  }
  device.capturing.insert(kCapture);
  run.plane.recorder.ObserveBatch(at.data(), views.data(), views.size());
  device.capturing.clear();
  const cuda::test::DeviceTensor eager =
      cuda::test::FlatTensor(DType::kInt32, 99, 0, kernels::test::Fill::kOrdinary, &random);

  std::map<int64_t, std::vector<Record>> expected;
  for (; run.plane.running.number() < 12; run.plane.plans.EndStep()) {
    std::byte& byte = *const_cast<std::byte*>(static_cast<const std::byte*>(tensors[1].view.data));
    byte = static_cast<std::byte>(run.plane.running.number());
    if (run.plane.running.number() != 6) device.Replay(kCapture, kReplay);
    run.Observe(7, eager.view);
    if (run.plane.running.number() % 2 != 0) continue;
    std::vector<Record>& records = expected[run.plane.running.number()];
    records.push_back(RecordOf(layout, eager.view));
    if (run.plane.running.number() == 6) continue;
    for (const auto& tensor : tensors) records.push_back(RecordOf(layout, tensor.view));
    run.Produced(1, tensors.size());
  }
  run.Finish();
  size_t position = 0;
  const std::vector<Record> records = run.sink->records();
  for (const auto& [step, of_step] : expected)
    for (const Record& record : of_step) {
      REQUIRE(position < records.size());
      CHECK(records[position].step == step);
      CHECK(Differences(records[position++], record) == "");
    }
  CHECK(position == records.size());
  CHECK(run.drained[1].ledger.dropped_total() == 0);
}

TEST_CASE("a device beside a training thread that runs ahead, with swaps in between: every row is accounted for") {
  cuda::test::FakeDevice device(7);
  device.run_at_once = false;
  std::mt19937_64 random(9);
  const auto tensor = cuda::test::FlatTensor(DType::kFloat32, 20000, 0, kernels::test::Fill::kOrdinary, &random);
  TensorView view = tensor.view;
  view.stream = kCapture;
  StartedRun run(Over(&device));
  run.plane.graphs.SetReplayStream({DeviceKind::kCuda, 0}, kReplay);
  std::atomic<bool> done{false};
  std::thread worker([&] {
    while (!done.load()) device.RunOne();
    device.RunAll();
  });
  for (int step = 0; step < 300; ++step) {
    if (step % 50 == 0) run.PublishPlan({static_cast<PlanId>(step / 50 + 1), {0, 1 + step / 50 % 2, 40}, 4});
    if (step == 1) {
      device.capturing.insert(kCapture);
      run.plane.graphs.Capture({SiteKind::kGradReduced, Port::kNone, 2, 0, "p"}, {}, view);
      device.capturing.clear();
    }
    if (step > 0) device.Replay(kCapture, kReplay);
    if (step > 0 && run.plane.recorder.collecting()) run.Produced(run.plane.plans.plan_id(), 1);
    run.plane.plans.EndStep();
  }
  done = true;
  worker.join();
  run.Finish();
  for (const Record& record : run.sink->records()) CHECK(record.site == 2);
  CHECK(run.sink->records().size() > 0);
}

}  // namespace
}  // namespace stepwatch::step
