// Several streams and several threads at once.

#include <atomic>
#include <thread>

#include "tests/kernels/cuda/engine_fixture.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::cuda::test {
namespace {

using kernels::test::Difference;

TEST_CASE("streams that run at once never share scratch memory, and more streams than areas are refused in part") {
  std::mt19937_64 random(23);
  FakeDevice device(23);
  device.run_at_once = false;
  const auto engine = MakeEngine(&device);
  const DeviceTensor tensor = FlatTensor(DType::kFloat32, 40000, 0, Fill::kOrdinary, &random);
  for (int round = 0; round < testing::Rounds(20, 4); ++round) {
    std::vector<DeviceItem> items(12, DeviceItem{tensor.view});
    for (DeviceItem& item : items) item.tensor.stream = reinterpret_cast<Stream>(1 + Below(6, &random));
    engine->Enqueue(items.data(), items.size(), {});
    REQUIRE(device.hazards == "");
    device.RunAll();
    for (const DeviceItem& item : items) {
      REQUIRE((item.code == StatusCode::kOk || item.code == StatusCode::kUnavailable));
      if (item.code == StatusCode::kOk) REQUIRE(Wrong(engine.get(), {item}, {}) == "");
    }
  }
}

TEST_CASE("with a side stream the statistics read what the producer wrote, before it writes again", "[slow]") {
  std::mt19937_64 random(29);
  for (int round = 0; round < testing::Rounds(20, 5); ++round) {
    FakeDevice device(static_cast<uint64_t>(round));
    device.run_at_once = false;
    DeviceEngineOptions options;
    options.side_stream = true;
    const auto engine = MakeEngine(&device, options);
    FakeDriver producer(&device);
    DeviceTensor tensor = FlatTensor(DType::kFloat32, 1000, 0, Fill::kTiny, &random);
    const DeviceTensor first = FlatTensor(DType::kFloat32, 1000, 0, Fill::kOrdinary, &random);
    const DeviceTensor second = FlatTensor(DType::kFloat32, 1000, 0, Fill::kHuge, &random);
    const Stream stream = reinterpret_cast<Stream>(1);
    tensor.view.stream = stream;
    producer.Upload(tensor.memory.data(), first.memory.data(), first.memory.size(), stream);
    DeviceItem item{tensor.view};
    engine->Enqueue(&item, 1, {});
    producer.Upload(tensor.memory.data(), second.memory.data(), second.memory.size(), stream);
    device.RunAll();
    Statistics found;
    REQUIRE(engine->Harvest(item.ticket, &found));
    REQUIRE(Difference(found, Expected(first.view, {})) == "");
  }
}

TEST_CASE("two trainer threads, a device and a reader work at once") {
  std::mt19937_64 random(31);
  FakeDevice device(31);
  device.run_at_once = false;
  DeviceEngineOptions options;
  options.slots = 256;
  const auto engine = MakeEngine(&device, options);
  const DeviceTensor tensor = FlatTensor(DType::kBFloat16, 70000, 0, Fill::kOrdinary, &random);
  const Statistics expected = Expected(tensor.view, {});
  constexpr int kBatches = testing::Rounds(60, 2);
  std::vector<std::atomic<uint64_t>> tickets(2 * kBatches);
  std::atomic<int> trainers{2};
  const auto train = [&](int self) {
    for (int i = 0; i < kBatches; ++i) {
      DeviceItem item{tensor.view};
      item.tensor.stream = reinterpret_cast<Stream>(1 + self);
      engine->Enqueue(&item, 1, {});
      tickets[static_cast<size_t>(self * kBatches + i)] = item.code == StatusCode::kOk ? item.ticket + 1 : UINT64_MAX;
    }
    --trainers;
  };
  std::thread first(train, 0), second(train, 1);
  std::thread runner([&] {
    while (trainers > 0) device.RunOne();
    device.RunAll();
  });
  int harvested = 0, wrong = 0;
  for (auto& ticket : tickets) {
    while (ticket == 0) std::this_thread::yield();
    if (ticket == UINT64_MAX) continue;
    Statistics found;
    while (!engine->Harvest(ticket - 1, &found)) std::this_thread::yield();
    ++harvested;
    wrong += Difference(found, expected).empty() ? 0 : 1;
  }
  first.join();
  second.join();
  runner.join();
  CHECK(harvested == 2 * kBatches);
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
