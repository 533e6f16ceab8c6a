// A captured step: recorded once, replayed many times, read by slot and device step.

#include "kernels/cuda/graph_slots.h"

#include <thread>

#include "kernels/reference.h"
#include "tests/kernels/cuda/engine_fixture.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::cuda::test {
namespace {

using kernels::test::Difference;

const Stream kCapture = reinterpret_cast<Stream>(1);
const Stream kReplay = reinterpret_cast<Stream>(2);

// A model whose step is a graph: captured on one stream, replayed on another.
struct CapturedModel {
  explicit CapturedModel(DeviceEngineOptions options = {}) : device(1) {
    engine = MakeEngine(&device, options);
    small = FlatTensor(DType::kFloat32, 1000, 0, Fill::kOrdinary, &random);
    large = FlatTensor(DType::kBFloat16, 100000, 0, Fill::kOrdinary, &random);
    for (const DeviceTensor* tensor : {&small, &large}) items.push_back(Captured(tensor->view));
  }

  DeviceItem Captured(TensorView view, Stream stream = kCapture) {
    view.stream = stream;
    DeviceItem item{view};
    device.capturing.insert(stream);
    engine->Enqueue(&item, 1, {});
    device.capturing.erase(stream);
    CHECK(item.captured);
    return item;
  }
  // One step of the trainer's thread; -1: the step could not be ended.
  int64_t Step(int replays = 1) {
    for (; replays > 0; --replays) device.Replay(kCapture, kReplay);
    uint64_t ended = 0;
    return engine->EndGraphStep(kReplay, &ended) == StatusCode::kOk ? static_cast<int64_t>(ended) : -1;
  }
  GraphAnswer Read(const DeviceItem& item, int64_t step) {
    return engine->HarvestGraph(static_cast<uint32_t>(item.ticket), static_cast<uint64_t>(step), &found);
  }
  void Change(std::byte value) { *const_cast<std::byte*>(static_cast<const std::byte*>(small.view.data)) = value; }

  std::mt19937_64 random{1};
  FakeDevice device;
  std::unique_ptr<DeviceEngine> engine;
  DeviceTensor small, large;
  std::vector<DeviceItem> items;
  Statistics found;
};

TEST_CASE("each replay answers under its own step, in the bits of the reference") {
  CapturedModel model;
  for (int64_t step = 0; step < testing::Rounds(50, 4); ++step) {
    model.Change(static_cast<std::byte>(step));
    REQUIRE(model.Step() == step);
    for (const DeviceItem& item : model.items) {
      REQUIRE(model.Read(item, step) == GraphAnswer::kThere);
      REQUIRE(Difference(model.found, Expected(item.tensor, {})) == "");
      REQUIRE(model.Read(item, step) == GraphAnswer::kThere);  // as often as one likes
    }
  }
  CHECK(model.device.memory_kept);
}

TEST_CASE("a step in which the graph was not replayed has no numbers, and is no mistake") {
  CapturedModel model;
  CHECK(model.Step(0) == 0);
  CHECK(model.Read(model.items[0], 0) == GraphAnswer::kNone);
  model.Step(1);
  for (int64_t step = 2; step < 40; ++step) {
    REQUIRE(model.Step(0) == step);
    REQUIRE(model.Read(model.items[0], step) == GraphAnswer::kNone);
  }
  CHECK(model.Read(model.items[0], 1) == GraphAnswer::kThere);  // nobody has written there since
}

TEST_CASE("of two replays in one step the last one's numbers are read, and only when the step is over") {
  CapturedModel model;
  model.device.run_at_once = false;
  model.device.Replay(kCapture, kReplay);
  model.device.RunAll();
  CHECK(model.Read(model.items[0], 0) == GraphAnswer::kNotYet);
  model.Change(std::byte{77});
  model.device.Replay(kCapture, kReplay);
  REQUIRE(model.Step(0) == 0);
  CHECK(model.Read(model.items[0], 0) == GraphAnswer::kNotYet);  // the device has yet to come to it
  model.device.RunAll();
  REQUIRE(model.Read(model.items[0], 0) == GraphAnswer::kThere);
  CHECK(Difference(model.found, Expected(model.small.view, {})) == "");
}

TEST_CASE("a host that runs ahead of the device gets each step's own numbers") {
  CapturedModel model;
  model.device.run_at_once = false;
  FakeDriver trainer(&model.device);
  std::vector<DeviceTensor> data;
  for (int step = 0; step < 8; ++step) {
    data.push_back(FlatTensor(DType::kFloat32, 1000, 0, Fill::kOrdinary, &model.random));
    trainer.Upload(const_cast<void*>(model.small.view.data), data.back().view.data, 4000, kReplay);
    REQUIRE(model.Step() == step);
  }
  model.device.RunAll();
  for (int64_t step = 0; step < 8; ++step) {
    REQUIRE(model.Read(model.items[0], step) == GraphAnswer::kThere);
    REQUIRE(Difference(model.found, Expected(data[static_cast<size_t>(step)].view, {})) == "");
  }
}

TEST_CASE("a reader may be late by the depth, and learns which results are lost") {
  DeviceEngineOptions options;
  options.graph_depth = 3;
  CapturedModel model(options);
  for (int step = 0; step < 5; ++step) model.Step();
  CHECK(model.Read(model.items[0], 0) == GraphAnswer::kLost);
  CHECK(model.Read(model.items[0], 1) == GraphAnswer::kLost);
  for (const int64_t step : {2, 3, 4}) CHECK(model.Read(model.items[0], step) == GraphAnswer::kThere);
  CHECK(model.Read(model.items[0], 5) == GraphAnswer::kNotYet);
  // A row that the device may be writing cannot be distinguished from one that was never written.
  const DeviceItem other = model.Captured(model.small.view, reinterpret_cast<Stream>(3));
  CHECK(model.Read(other, 1) == GraphAnswer::kLost);
  CHECK(model.Read(other, 4) == GraphAnswer::kNone);
}

TEST_CASE("switched off, a replay measures nothing and steps go on") {
  CapturedModel model;
  model.Step();
  CHECK(model.Read(model.items[0], 0) == GraphAnswer::kThere);  // on at first
  REQUIRE(model.engine->SwitchGraphs(kReplay, false) == StatusCode::kOk);
  REQUIRE(model.Step() == 1);
  CHECK(model.Read(model.items[0], 1) == GraphAnswer::kNone);
  CHECK(model.Read(model.items[1], 1) == GraphAnswer::kNone);
  REQUIRE(model.engine->SwitchGraphs(kReplay, true) == StatusCode::kOk);
  REQUIRE(model.Step() == 2);
  CHECK(model.Read(model.items[1], 2) == GraphAnswer::kThere);
}

TEST_CASE("while nothing may be queued a step cannot be ended or switched, and goes on") {
  CapturedModel model;
  for (std::set<Stream>* trouble : {&model.device.capturing, &model.device.blocked}) {
    trouble->insert(kReplay);
    uint64_t ended = 99;
    CHECK(model.engine->EndGraphStep(kReplay, &ended) == StatusCode::kUnsupported);
    CHECK(model.engine->SwitchGraphs(kReplay, false) == StatusCode::kUnsupported);
    trouble->clear();
  }
  CHECK(model.device.launches == 2);  // the captured ones: nothing got into the graph by mistake
  model.device.refuse_launches = true;
  uint64_t ended = 0;
  CHECK(model.engine->EndGraphStep(kReplay, &ended) == StatusCode::kUnavailable);
  model.device.refuse_launches = false;
  CHECK(model.Step() == 0);
  CHECK(model.Read(model.items[0], 0) == GraphAnswer::kThere);
}

TEST_CASE("random batches are captured in few launches and replayed in the bits of the reference", "[slow][random]") {
  const uint64_t seed = kernels::test::RandomSeed();
  INFO("repeat with STEPWATCH_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < testing::Rounds(30); ++round) {
    FakeDevice device(seed);
    device.slow_fp64 = false;
    const auto engine = MakeEngine(&device);
    std::vector<DeviceTensor> tensors(static_cast<size_t>(1 + Below(200, &random)));
    for (DeviceTensor& tensor : tensors) tensor = AnyTensor(&random);  // empty ones among them
    std::vector<DeviceItem> items = ItemsOf(tensors);
    for (DeviceItem& item : items) item.tensor.stream = kCapture;
    const MeasureOptions options{Below(2, &random) == 0 ? 1e-8 : 0.25, EpsMode::kParity};
    device.capturing.insert(kCapture);
    engine->Enqueue(items.data(), items.size(), options);
    device.capturing.clear();
    CHECK(device.launches < 20 + tensors.size() / 4);
    for (uint64_t step = 0; step < 3; ++step) {
      device.Replay(kCapture, kReplay);
      uint64_t ended = 0;
      REQUIRE(engine->EndGraphStep(kReplay, &ended) == StatusCode::kOk);
      for (const DeviceItem& item : items) {
        Statistics found;
        INFO("round " << round << ": " << Describe(item.tensor));
        REQUIRE(item.code == StatusCode::kOk);
        REQUIRE(engine->HarvestGraph(static_cast<uint32_t>(item.ticket), step, &found) == GraphAnswer::kThere);
        REQUIRE(Difference(found, Expected(item.tensor, options)) == "");
      }
    }
  }
}

TEST_CASE("an empty tensor has its numbers only where its graph was replayed") {
  CapturedModel model;
  const int64_t none = 0;
  TensorView empty = DenseView(nullptr, DType::kFloat32, &none, 1);
  empty.device = model.small.view.device;
  const DeviceItem item = model.Captured(empty);
  REQUIRE(item.code == StatusCode::kOk);
  model.Step();
  model.Step(0);
  REQUIRE(model.Read(item, 0) == GraphAnswer::kThere);
  CHECK(Difference(model.found, Expected(empty, {})) == "");
  CHECK(model.Read(item, 1) == GraphAnswer::kNone);
}

TEST_CASE("agreements are captured like tensors, those of unlike and of empty pairs too") {
  CapturedModel model;
  const DeviceTensor other = FlatTensor(DType::kBFloat16, 100000, 0, Fill::kOrdinary, &model.random);
  const int64_t none = 0;
  TensorView empty = DenseView(nullptr, DType::kFloat32, &none, 1);
  empty.device = model.small.view.device;
  model.device.capturing.insert(kCapture);
  std::vector<DeviceItem> agreements;
  for (auto [a, b] : {std::pair{model.large.view, other.view}, {model.small.view, other.view}, {empty, empty}}) {
    a.stream = kCapture;
    agreements.push_back(model.engine->EnqueueAgreement(a, b, 0));
    REQUIRE(agreements.back().code == StatusCode::kOk);
    CHECK(agreements.back().captured);
  }
  model.device.capturing.clear();
  model.Step();
  model.Step(0);
  double expected = 0;
  REQUIRE(reference::SignAgreement(OnCpu(model.large.view), OnCpu(other.view), &expected).ok());
  const double all_expected[] = {expected, 0, 1};
  for (size_t i = 0; i < 3; ++i) {
    REQUIRE(model.Read(agreements[i], 0) == GraphAnswer::kThere);
    CHECK(model.found.mean == all_expected[i]);
    CHECK(model.Read(agreements[i], 1) == GraphAnswer::kNone);
  }
}

TEST_CASE("slots and scratch memory end, and what else cannot be captured is refused with its reason", "[slow]") {
  DeviceEngineOptions options;
  options.graph_slots = 8;
  CapturedModel model(options);
  CHECK(model.engine->graph_slots() == 8);
  const int64_t many = 1200 * 65536;
  TensorView huge = DenseView(model.small.memory.data(), DType::kInt8, &many, 1);  // refused before it is read
  huge.device = model.small.view.device;
  CHECK(model.Captured(huge).code == StatusCode::kExhausted);  // more scratch than eight slots bring along
  TensorView odd = model.small.view;
  odd.numel = 3;
  CHECK(model.Captured(odd).code == StatusCode::kInvalid);
  odd = model.small.view;
  odd.device.index = 1;
  CHECK(model.Captured(odd).code == StatusCode::kUnsupported);
  odd = model.small.view;
  odd.dtype = DType::kOther;
  CHECK(model.Captured(odd).code == StatusCode::kUnsupported);
  model.device.refuse_launches = true;
  CHECK(model.Captured(model.small.view).code == StatusCode::kUnavailable);
  model.device.refuse_launches = false;
  for (int i = 0; i < 4; ++i) CHECK(model.Captured(model.small.view).code == StatusCode::kOk);
  const DeviceItem surplus = model.Captured(model.small.view);
  CHECK(surplus.code == StatusCode::kExhausted);
  model.Step();
  CHECK(model.Read(model.items[0], 0) == GraphAnswer::kThere);

  options.graph_slots = 0;
  FakeDevice device(1);
  const auto without = MakeEngine(&device, options);
  CHECK(without->graph_slots() == 0);
  device.capturing.insert(kCapture);
  DeviceItem item{model.small.view};
  item.tensor.stream = kCapture;
  without->Enqueue(&item, 1, {});
  CHECK(item.captured);
  CHECK(item.code == StatusCode::kExhausted);
  uint64_t ended = 0;
  CHECK(without->EndGraphStep(kReplay, &ended) == StatusCode::kUnsupported);
  CHECK(device.launches == 0);
}

TEST_CASE("with a side stream a graph is still measured on its own stream") {
  DeviceEngineOptions options;
  options.side_stream = true;
  CapturedModel model(options);
  model.Step();
  CHECK(model.Read(model.items[0], 0) == GraphAnswer::kThere);
}

TEST_CASE("bad options and a device without memory are refused") {
  FakeDevice device(1);
  FakeDriver driver(&device);
  GraphSlotsOptions options;
  options.depth = 2;
  CHECK(GraphSlots::Create(&driver, options).status().code() == StatusCode::kInvalid);
  options.depth = 3;
  device.allocations_allowed = 2;
  CHECK(GraphSlots::Create(&driver, options).status().code() == StatusCode::kExhausted);
}

// The device overwrites rows while the reader looks: every answer is whole.
TEST_CASE("a reader beside a device that laps it never sees half a result", "[slow]") {
  DeviceEngineOptions options;
  options.graph_depth = 3;
  CapturedModel model(options);
  constexpr int kSteps = testing::Rounds(2000);
  std::atomic<bool> over{false};
  std::thread device([&] {
    for (int step = 0; step < kSteps; ++step) model.Step();
    over = true;
  });
  const Statistics expected = Expected(model.small.view, {});
  int64_t there = 0, wrong = 0;
  while (!over) {
    for (uint64_t step = 0; step < kSteps && !over; ++step) {
      Statistics found;
      if (model.engine->HarvestGraph(static_cast<uint32_t>(model.items[0].ticket), step, &found) != GraphAnswer::kThere)
        continue;
      ++there;
      wrong += Difference(found, expected).empty() ? 0 : 1;
    }
  }
  device.join();
  CHECK(wrong == 0);
  CHECK(model.Read(model.items[0], kSteps - 1) == GraphAnswer::kThere);
  INFO(there << " results were read beside the device");
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
