// Tensors on devices: claims, their numbers, tickets that nobody wants, and why there is no engine.
#include <stdexcept>
#include <thread>
#include <vector>

#include "src/records/pending_result.h"
#include "src/stats/engine.h"
#include "tests/catch.h"
#include "tests/device/fake_device.h"
#include "tests/has.h"

namespace stepwatch::device {
namespace {

using testing::Has;

constexpr Device kCuda0{DeviceKind::kCuda, 0};

RecordLayout LayoutOf(std::vector<Stat> stats) {
  RecordLayout layout;
  layout.stats = std::move(stats);
  return layout;
}

const std::vector<float> kData = {3, -4, 0};

TensorView View(Device device = kCuda0) {
  const int64_t size = 3;
  TensorView view = DenseView(kData.data(), DType::kFloat32, &size, 1);
  view.device = device;
  return view;
}

TEST_CASE("a pending record becomes, bit for bit, the record of the same tensor in CPU memory") {
  FakeDevices devices(1);
  stats::Engine engine({devices.Maker()});
  std::vector<Stat> stats;
  for (int i = 0; i < kOpCount; ++i) stats.push_back(static_cast<Stat>(i));
  const RecordLayout layout = LayoutOf(stats);
  Record on_cpu, on_device;
  on_cpu.step = on_device.step = 9;
  on_cpu.flags = on_device.flags = Record::kInDoubt;
  REQUIRE(engine.Enqueue(layout, {}, View({}), &on_cpu) == StatusCode::kOk);
  REQUIRE(engine.Enqueue(layout, {}, View(), &on_device) == StatusCode::kOk);
  CHECK_FALSE(on_cpu.pending());
  CHECK(on_device.pending());
  CHECK_FALSE(engine.Harvest(layout, {}, &on_device));
  CHECK(on_device.pending());
  devices[0].FinishAll();
  REQUIRE(engine.Harvest(layout, {}, &on_device));
  CHECK(on_device.flags == Record::kInDoubt);
  CHECK(on_device.step == 9);
  CHECK(on_device.dims == on_cpu.dims);
  REQUIRE(on_device.value_count == on_cpu.value_count);
  for (size_t i = 0; i < on_cpu.value_count; ++i) {
    CHECK(on_device.values[i].stat == on_cpu.values[i].stat);
    CHECK(on_device.values[i].is_integer == on_cpu.values[i].is_integer);
    CHECK(on_device.values[i].i64 == on_cpu.values[i].i64);
  }
}

TEST_CASE("a ticket goes back to the device when its record is discarded or never fitted") {
  FakeDevices devices(1, 4);
  stats::Engine engine({devices.Maker(), 4});
  const RecordLayout layout = LayoutOf({Stat::kNorm});
  Record record;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) {
      REQUIRE(engine.Enqueue(layout, {}, View(), &record) == StatusCode::kOk);
      engine.Discard(record);
    }
    CHECK(engine.Enqueue(layout, {}, View(), &record) == StatusCode::kExhausted);
    CHECK(devices[0].outstanding() == 4);  // until the reader comes by
    engine.Sweep();
    CHECK(devices[0].outstanding() == 0);
    CHECK(engine.Enqueue(layout, {}, View(), &record) == StatusCode::kExhausted);  // the device still writes there
    devices[0].FinishAll();
  }
  const RecordLayout too_many = LayoutOf(std::vector<Stat>(kOpCount + 1, Stat::kNorm));
  CHECK(engine.Enqueue(too_many, {}, View(), &record) == StatusCode::kInternal);
  engine.Sweep();
  CHECK(devices[0].outstanding() == 0);
  CHECK(devices[0].misuse() == "");
  Record measured;
  REQUIRE(engine.Enqueue(layout, {}, View({}), &measured) == StatusCode::kOk);
  engine.Discard(measured);  // has no ticket
  engine.Sweep();
  CHECK(devices[0].misuse() == "");
}

TEST_CASE("many threads discard while the reader sweeps: every ticket comes back") {
  FakeDevices devices(1, 64);
  devices[0].FinishAtOnce();
  stats::Engine engine({devices.Maker(), 64});
  const RecordLayout layout = LayoutOf({Stat::kNorm});
  std::atomic<int> running{3};
  std::atomic<uint64_t> asked{0};
  std::vector<std::thread> threads;
  for (int who = 0; who < 3; ++who)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        Record record;
        if (engine.Enqueue(layout, {}, View(), &record) != StatusCode::kOk) continue;
        ++asked;
        engine.Discard(record);
      }
      --running;
    });
  while (running.load() > 0) engine.Sweep();
  for (std::thread& thread : threads) thread.join();
  engine.Sweep();
  CHECK(devices[0].outstanding() == 0);
  CHECK(devices[0].discarded() == asked.load());
  CHECK(devices[0].misuse() == "");
}

TEST_CASE("threads that see the first tensor of a device at once make one engine") {
  FakeDevices devices(1);
  devices[0].FinishAtOnce();
  stats::Engine engine({devices.Maker()});
  const RecordLayout layout = LayoutOf({Stat::kNorm});
  std::atomic<int> measured{0};
  std::vector<std::thread> threads;
  for (int who = 0; who < 4; ++who)
    threads.emplace_back([&] {
      Record record;
      measured += engine.Enqueue(layout, {}, View(), &record) == StatusCode::kOk;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(measured.load() == 4);
  CHECK(devices.asked_for() == 1);
}

TEST_CASE("without an engine a tensor on a device is unsupported, and the maker's reason is reported once") {
  const RecordLayout layout = LayoutOf({Stat::kNorm});
  Record record;
  FakeDevices none(0);
  stats::Engine engine({none.Maker()});
  for (int i = 0; i < 3; ++i) CHECK(engine.Enqueue(layout, {}, View(), &record) == StatusCode::kUnsupported);
  CHECK(engine.EnqueueAgreement(layout, {}, View(), View(), &record) == StatusCode::kUnsupported);
  CHECK(none.asked_for() == 1);
  const std::vector<std::string> diagnostics = engine.TakeDiagnostics();
  REQUIRE(diagnostics.size() == 1);
  CHECK(Has(diagnostics[0], "CUDA device 0 cannot be measured: this machine has 0 devices"));
  CHECK(engine.Enqueue(layout, {}, View(), &record) == StatusCode::kUnsupported);
  CHECK(engine.TakeDiagnostics().empty());

  stats::Engine thrower({[](int, size_t) -> Result<std::unique_ptr<kernels::DeviceEngine>> {
    throw std::runtime_error("thrown on purpose");
  }});
  thrower.Prepare(kCuda0);
  REQUIRE(thrower.TakeDiagnostics().size() == 1);
  stats::Engine without;
  CHECK(without.Enqueue(layout, {}, View(), &record) == StatusCode::kUnsupported);
  CHECK(without.TakeDiagnostics().size() == 1);
}

TEST_CASE("a device number that no machine has is unsupported") {
  FakeDevices devices(1);
  stats::Engine engine({devices.Maker()});
  Record record;
  for (const int index : {-1, 64, 127})
    CHECK(engine.Enqueue(LayoutOf({Stat::kNorm}), {}, View({DeviceKind::kCuda, static_cast<int8_t>(index)}), &record) ==
          StatusCode::kUnsupported);
  CHECK(devices.asked_for() == 0);
}

TEST_CASE("a view that contradicts itself is reported, and a tensor of no known dtype is left to the front end") {
  stats::Engine engine;
  Record record;
  TensorView odd = View({});
  odd.dtype = DType::kOther;
  CHECK(engine.Enqueue(LayoutOf({Stat::kNorm}), {}, odd, &record) == StatusCode::kUnsupported);
  CHECK(engine.TakeDiagnostics().empty());
  TensorView wrong = View({});
  wrong.numel = 17;
  for (int i = 0; i < 2; ++i)
    CHECK(engine.Enqueue(LayoutOf({Stat::kNorm}), {}, wrong, &record) == StatusCode::kInvalid);
  const std::vector<std::string> diagnostics = engine.TakeDiagnostics();
  REQUIRE(diagnostics.size() == 1);
  CHECK(Has(diagnostics[0], "the description of a tensor in CPU memory contradicts itself"));
}

}  // namespace
}  // namespace stepwatch::device
