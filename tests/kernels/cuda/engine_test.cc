// The whole engine over an emulated device, against the reference, bit for bit.

#include "kernels/cuda/engine.h"

#include <algorithm>

#include "kernels/reference.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/engine_fixture.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::cuda::test {
namespace {

using kernels::test::Difference;
using kernels::test::kAllDTypes;
using kernels::test::RandomSeed;

TEST_CASE("random batches have the bits of the reference, whatever the grid", "[slow][random]") {
  const uint64_t seed = RandomSeed();
  INFO("repeat with STEPWATCH_SEED=" << seed);
  std::mt19937_64 random(seed);
  FakeDevice device(seed);
  const auto engine = MakeEngine(&device);
  const double thresholds[] = {1e-8, 0, 0.25, 1e-40, 3, 1e300};
  for (int round = 0; round < testing::Rounds(400); ++round) {
    device.multiprocessors = static_cast<uint32_t>(1 + Below(40, &random));
    std::vector<DeviceTensor> tensors(static_cast<size_t>(1 + Below(round % 10 == 0 ? 150 : 12, &random)));
    for (DeviceTensor& tensor : tensors) tensor = AnyTensor(&random);
    std::vector<DeviceItem> items = ItemsOf(tensors);
    const MeasureOptions options{thresholds[Below(6, &random)],
                                 Below(4, &random) == 0 ? EpsMode::kExact : EpsMode::kParity};
    engine->Enqueue(items.data(), items.size(), options);
    INFO("round " << round);
    REQUIRE(Wrong(engine.get(), items, options) == "");
  }
}

TEST_CASE("tensors of one tile, of full tiles, of one group and of several are folded as the reference folds",
          "[slow]") {
  std::mt19937_64 random(7);
  FakeDevice device(7);
  const auto engine = MakeEngine(&device);
  const int64_t tile = kTileBytes / 8;
  const int64_t counts[] = {
      1, 3, tile - 1, tile, tile + 1, 2 * tile, 7 * tile + 3, 256 * tile, 256 * tile + 1, 520 * tile + 77};
  for (int64_t count : counts) {
    const DeviceTensor tensor = FlatTensor(DType::kFloat64, count, count % 2 == 0 ? 0 : 8, Fill::kOrdinary, &random);
    DeviceItem item{tensor.view};
    engine->Enqueue(&item, 1, {});
    INFO(count << " elements");
    REQUIRE(Wrong(engine.get(), {item}, {}) == "");
  }
  const DeviceTensor wide = FlatTensor(DType::kFloat32, 19 * tile, 0, Fill::kFewSpecial, &random);
  DeviceItem item{wide.view};
  engine->Enqueue(&item, 1, {});
  REQUIRE(Wrong(engine.get(), {item}, {}) == "");
}

TEST_CASE("one NaN or infinity is found wherever it is") {
  std::mt19937_64 random(11);
  FakeDevice device(11);
  const auto engine = MakeEngine(&device);
  for (DType dtype :
       {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    const int64_t size = ElementSize(dtype);
    const int64_t count = 65536 / size + 100;
    DeviceTensor tensor = FlatTensor(dtype, count, 0, Fill::kOrdinary, &random);
    for (int64_t at : {int64_t{0}, count / 3, count - 101, count - 100, count - 1}) {
      std::byte* element = tensor.memory.data() + at * size;
      const std::vector<std::byte> saved(element, element + size);
      std::fill(element, element + size, std::byte{0xff});
      DeviceItem item{tensor.view};
      engine->Enqueue(&item, 1, {});
      Statistics found;
      REQUIRE(engine->Harvest(item.ticket, &found));
      INFO(DTypeName(dtype) << " at " << at);
      CHECK(Difference(found, Expected(tensor.view, {})) == "");
      CHECK(found.nans == 1);
      std::copy(saved.begin(), saved.end(), element);
    }
  }
}

TEST_CASE("a batch of weights is described and uploaded once, and again when a tensor moves") {
  std::mt19937_64 random(3);
  FakeDevice device(3);
  const auto engine = MakeEngine(&device);
  std::vector<DeviceTensor> tensors;
  for (int i = 0; i < 300; ++i)
    tensors.push_back(FlatTensor(i % 3 == 0 ? DType::kBFloat16 : DType::kFloat32,
                                 1 + Below(testing::Rounds(5000), &random), 0, Fill::kOrdinary, &random));
  std::vector<DeviceItem> items = ItemsOf(tensors);
  for (int step = 0; step < 3; ++step) {
    device.launches = 0;
    engine->Enqueue(items.data(), items.size(), {});
    CHECK(device.launches == 2);  // one for each dtype
    CHECK(device.uploads == 1);
    REQUIRE(Wrong(engine.get(), items, {}) == "");
  }
  const DeviceTensor moved = FlatTensor(DType::kFloat32, 4000, 0, Fill::kOrdinary, &random);
  items[200].tensor = moved.view;
  engine->Enqueue(items.data(), items.size(), {});
  CHECK(device.uploads == 2);
  REQUIRE(Wrong(engine.get(), items, {}) == "");
}

TEST_CASE("results may be asked for in any order, while the device is late") {
  std::mt19937_64 random(5);
  FakeDevice device(5);
  device.run_at_once = false;
  const auto engine = MakeEngine(&device);
  std::vector<DeviceTensor> tensors(40);
  for (DeviceTensor& tensor : tensors) tensor = AnyTensor(&random);
  std::vector<DeviceItem> items = ItemsOf(tensors);
  engine->Enqueue(items.data(), items.size(), {});
  Statistics found;
  const auto late = std::find_if(items.begin(), items.end(), [](const auto& item) { return item.tensor.numel > 0; });
  REQUIRE_FALSE(engine->Harvest(late->ticket, &found));
  device.RunAll();
  std::shuffle(items.begin(), items.end(), random);
  REQUIRE(Wrong(engine.get(), items, {}) == "");
  REQUIRE_FALSE(engine->Harvest(items.front().ticket, &found));  // once for a ticket
}

TEST_CASE("a reader that is late stops new measurements, and nothing waits") {
  std::mt19937_64 random(9);
  FakeDevice device(9);
  DeviceEngineOptions options;
  options.slots = 8;
  const auto engine = MakeEngine(&device, options);
  const DeviceTensor tensor = FlatTensor(DType::kFloat32, 100, 0, Fill::kOrdinary, &random);
  std::vector<DeviceItem> items(11, DeviceItem{tensor.view});
  engine->Enqueue(items.data(), items.size(), {});
  const auto refused = [&] {
    return std::count_if(items.begin(), items.end(), [](const auto& i) { return i.code == StatusCode::kExhausted; });
  };
  REQUIRE(refused() == 3);
  Statistics found;
  for (size_t i = 0; i < 8; ++i) REQUIRE(engine->Harvest(items[i].ticket, &found));
  engine->Enqueue(items.data(), 8, {});
  for (size_t i = 0; i < 8; ++i) CHECK(items[i].code == StatusCode::kOk);
}

TEST_CASE("an discarded ticket frees its slot once the device has written it") {
  std::mt19937_64 random(13);
  FakeDevice device(13);
  device.run_at_once = false;
  DeviceEngineOptions options;
  options.slots = 2;
  const auto engine = MakeEngine(&device, options);
  const DeviceTensor tensor = FlatTensor(DType::kFloat32, 100, 0, Fill::kOrdinary, &random);
  std::vector<DeviceItem> items(2, DeviceItem{tensor.view});
  engine->Enqueue(items.data(), 2, {});
  engine->Discard(items[0].ticket);
  engine->Discard(items[1].ticket);
  DeviceItem next{tensor.view};
  engine->Enqueue(&next, 1, {});
  REQUIRE(next.code == StatusCode::kExhausted);
  device.RunAll();
  engine->Enqueue(&next, 1, {});
  REQUIRE(next.code == StatusCode::kOk);
  device.RunAll();
  Statistics found;
  REQUIRE_FALSE(engine->Harvest(items[0].ticket, &found));
  REQUIRE(Wrong(engine.get(), {next}, {}) == "");
}

TEST_CASE("thousands of batches pass through a small ring, beyond 32 bits of tickets") {
  std::mt19937_64 random(17);
  FakeDevice device(17);
  DeviceEngineOptions options;
  options.slots = 64;
  const auto engine = MakeEngine(&device, options, (uint64_t{1} << 32) - 1000);
  const DeviceTensor tensor = FlatTensor(DType::kInt16, 40, 0, Fill::kOrdinary, &random);
  const Statistics expected = Expected(tensor.view, {});
  std::vector<DeviceItem> waiting;
  for (int batch = 0; batch < testing::Rounds(3000); ++batch) {
    std::vector<DeviceItem> items(static_cast<size_t>(1 + Below(30, &random)), DeviceItem{tensor.view});
    engine->Enqueue(items.data(), items.size(), {});
    for (const DeviceItem& item : items)
      if (item.code == StatusCode::kOk) waiting.push_back(item);
    std::shuffle(waiting.begin(), waiting.end(), random);
    for (; waiting.size() > 20; waiting.pop_back()) {
      Statistics found;
      if (Below(10, &random) == 0) {
        engine->Discard(waiting.back().ticket);
        continue;
      }
      REQUIRE(engine->Harvest(waiting.back().ticket, &found));
      REQUIRE(Difference(found, expected) == "");
    }
    // The oldest stops the ring if it is left lying too long.
    if (batch % 4 == 0)
      for (; !waiting.empty(); waiting.pop_back()) engine->Discard(waiting.back().ticket);
  }
}

TEST_CASE("what cannot be measured is refused with its reason and disturbs no neighbour") {
  std::mt19937_64 random(19);
  FakeDevice device(19);
  const auto engine = MakeEngine(&device);
  const DeviceTensor good = FlatTensor(DType::kFloat32, 10, 0, Fill::kOrdinary, &random);
  for (size_t copies : {size_t{1}, size_t{30}}) {  // by value, and by table
    std::vector<DeviceItem> items;
    for (size_t i = 0; i < copies; ++i) {
      items.resize(items.size() + 5, DeviceItem{good.view});
      DeviceItem* last = items.data() + items.size() - 5;
      last[1].tensor.dtype = DType::kOther;
      last[2].tensor.numel = 11;
      last[3].tensor.device = Device{DeviceKind::kCuda, 1};
    }
    engine->Enqueue(items.data(), items.size(), {});
    for (size_t i = 0; i < items.size(); i += 5) {
      CHECK(items[i + 1].code == StatusCode::kUnsupported);
      CHECK(items[i + 2].code == StatusCode::kInvalid);
      CHECK(items[i + 3].code == StatusCode::kUnsupported);
      CHECK(Wrong(engine.get(), {items[i], items[i + 4]}, {}) == "");
    }
  }
  device.refuse_launches = true;
  DeviceItem item{good.view};
  engine->Enqueue(&item, 1, {});
  CHECK(item.code == StatusCode::kUnavailable);
  device.refuse_launches = false;
  device.blocked.insert(nullptr);
  engine->Enqueue(&item, 1, {});
  CHECK(item.code == StatusCode::kUnavailable);
  CHECK_FALSE(item.captured);
  CHECK(engine->EnqueueAgreement(good.view, good.view, 0).code == StatusCode::kUnavailable);
}

TEST_CASE("random pairs agree in sign as in the reference", "[random]") {
  const uint64_t seed = RandomSeed();
  INFO("repeat with STEPWATCH_SEED=" << seed);
  std::mt19937_64 random(seed);
  FakeDevice device(seed);
  const auto engine = MakeEngine(&device);
  for (int round = 0; round < testing::Rounds(300); ++round) {
    const DeviceTensor a = AnyTensor(&random);
    const DType dtype = Below(2, &random) == 0 ? a.view.dtype : kAllDTypes[Below(std::size(kAllDTypes), &random)];
    const int shift = Below(2, &random) == 0 ? 0 : ElementSize(dtype);
    DeviceTensor b = FlatTensor(dtype, std::max<int64_t>(a.view.numel, 1), shift, Fill::kAnyBits, &random);
    TensorView other = DenseView(b.view.data, dtype, a.view.sizes.data(), a.view.ndim);
    other.device = a.view.device;
    const DeviceItem asked = engine->EnqueueAgreement(a.view, other, 0);
    REQUIRE(asked.code == StatusCode::kOk);
    double expected = 0;
    REQUIRE(reference::SignAgreement(OnCpu(a.view), OnCpu(other), &expected).ok());
    Statistics found;
    REQUIRE(engine->Harvest(asked.ticket, &found));
    INFO("round " << round << ": " << Describe(a.view) << " and " << Describe(other));
    REQUIRE(found.mean == expected);
    REQUIRE(found.numel == a.view.numel);
  }
  const DeviceTensor a = FlatTensor(DType::kFloat32, 8, 0, Fill::kOrdinary, &random);
  const DeviceTensor b = FlatTensor(DType::kFloat32, 9, 0, Fill::kOrdinary, &random);
  const DeviceItem asked = engine->EnqueueAgreement(a.view, b.view, 0);
  REQUIRE(asked.code == StatusCode::kOk);
  Statistics found;
  REQUIRE(engine->Harvest(asked.ticket, &found));
  CHECK(found.mean == 0);
}

TEST_CASE("a device without memory is a clear sentence") {
  FakeDevice device(1);
  for (size_t allowed : {size_t{0}, size_t{1}, size_t{10}, size_t{50}}) {
    device.allocations_allowed = allowed;
    const auto engine = Engine::Create(std::make_unique<FakeDriver>(&device), {});
    REQUIRE_FALSE(engine.ok());
    CHECK(engine.status().code() == StatusCode::kExhausted);
    CHECK(engine.status().message().find("CUDA device has no memory left") != std::string::npos);
  }
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
