// The time of measurements on the device: found with a few events, and added to the accounts of the tensors.
#include "kernels/cuda/batch_clock.h"

#include <numeric>

#include "tests/kernels/cuda/engine_fixture.h"

namespace stepwatch::kernels::cuda::test {
namespace {

DeviceTimes TimesOf(DeviceEngine* engine) {
  DeviceTimes ns{};
  engine->TakeTimes(&ns);
  return ns;
}

uint64_t TotalOf(const DeviceTimes& ns) {
  return std::accumulate(ns.begin(), ns.end(), uint64_t{0});
}

// Some tensors alike, of small size: what they cost differs by nothing.
struct Tensors {
  explicit Tensors(size_t count, int64_t numel = 16) {
    std::mt19937_64 random(5);
    for (size_t i = 0; i < count; ++i) all.push_back(FlatTensor(DType::kFloat32, numel, 0, Fill::kOrdinary, &random));
  }
  std::vector<DeviceItem> Items(uint8_t account) const {
    std::vector<DeviceItem> items = ItemsOf(all);
    for (DeviceItem& item : items) item.account = account;
    return items;
  }
  std::vector<DeviceTensor> all;
};

void Discard(DeviceEngine* engine, const std::vector<DeviceItem>& items) {
  for (const DeviceItem& item : items) engine->Discard(item.ticket);
}

TEST_CASE("a batch takes as long as its launches, and its accounts share that by their bytes") {
  FakeDevice device(1);
  device.ns_of_launch = 1'000'000;
  const auto engine = MakeEngine(&device);
  // 256 KB are what a tensor costs beside its bytes.
  const Tensors small(2), large(1, 3 * (256 << 10) / 4);
  std::vector<DeviceItem> items = small.Items(3);
  items.push_back(large.Items(7)[0]);
  engine->Enqueue(items.data(), items.size(), {});
  const DeviceTimes ns = TimesOf(engine.get());
  CHECK(TotalOf(ns) == Approx(1e6 * static_cast<double>(device.launches)).epsilon(0.001));
  CHECK(static_cast<double>(ns[7]) == Approx(2.0 * static_cast<double>(ns[3])).epsilon(0.001));
  CHECK(TotalOf(TimesOf(engine.get())) == 0);
}

TEST_CASE("tensors that come one by one are timed now and then, and none of their time is left out") {
  FakeDevice device(2);
  const auto engine = MakeEngine(&device);
  const Tensors one(1);
  for (int i = 0; i < 9; ++i) {
    std::vector<DeviceItem> items = one.Items(static_cast<uint8_t>(i % 2));
    engine->Enqueue(items.data(), 1, {});
    Discard(engine.get(), items);
  }
  CHECK(device.marks == 6);
  const DeviceTimes ns = TimesOf(engine.get());
  CHECK(TotalOf(ns) == Approx(9.0 * 1000).margin(9));
  CHECK(static_cast<double>(ns[0]) == Approx(5.0 * 1000).margin(9));
}

TEST_CASE("a measurement that the device has not finished is timed when it has") {
  FakeDevice device(3);
  device.run_at_once = false;
  const auto engine = MakeEngine(&device);
  const Tensors four(4);
  std::vector<DeviceItem> items = four.Items(1);
  engine->Enqueue(items.data(), items.size(), {});
  CHECK(TotalOf(TimesOf(engine.get())) == 0);
  device.RunAll();
  CHECK(TotalOf(TimesOf(engine.get())) > 0);
}

TEST_CASE("a device that is late is asked for no more times than there are events, and later nothing is missing") {
  FakeDevice device(4);
  device.run_at_once = false;
  const auto engine = MakeEngine(&device);
  const Tensors two(2);
  constexpr size_t kBatches = 3 * BatchClock::kPairs;
  for (size_t i = 0; i < kBatches; ++i) {
    std::vector<DeviceItem> items = two.Items(0);
    engine->Enqueue(items.data(), items.size(), {});
    Discard(engine.get(), items);
  }
  CHECK(device.marks == kMarks);
  device.RunAll();
  const uint64_t first = TotalOf(TimesOf(engine.get()));
  std::vector<DeviceItem> items = two.Items(0);
  engine->Enqueue(items.data(), items.size(), {});
  device.RunAll();
  const double expected = 1000.0 * static_cast<double>(device.launches);
  CHECK(static_cast<double>(first + TotalOf(TimesOf(engine.get()))) == Approx(expected).epsilon(0.001));
}

TEST_CASE("with a side stream the wait for the producer is not in it") {
  FakeDevice device(5);
  device.run_at_once = false;
  DeviceEngineOptions options;
  options.side_stream = true;
  const auto engine = MakeEngine(&device, options);
  const Stream stream = reinterpret_cast<Stream>(1);
  const Tensors two(2);
  std::vector<DeviceItem> items = two.Items(0);
  for (DeviceItem& item : items) item.tensor.stream = stream;
  engine->Enqueue(items.data(), items.size(), {});
  device.RunAll();
  CHECK(TotalOf(TimesOf(engine.get())) == Approx(1000.0 * static_cast<double>(device.launches)).epsilon(0.001));
}

TEST_CASE("a measurement that becomes part of a graph takes no event with it") {
  FakeDevice device(6);
  const auto engine = MakeEngine(&device);
  const Stream stream = reinterpret_cast<Stream>(1);
  device.capturing.insert(stream);
  const Tensors three(3);
  std::vector<DeviceItem> items = three.Items(0);
  for (DeviceItem& item : items) item.tensor.stream = stream;
  engine->Enqueue(items.data(), items.size(), {});
  CHECK(items[0].captured);
  CHECK(device.marks == 0);
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
