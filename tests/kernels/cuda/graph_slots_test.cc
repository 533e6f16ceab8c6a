// A captured step: recorded once, replayed many times, read by (slot, device step).

#include "kernels/cuda/graph_slots.h"

#include <cstring>

#include "tests/catch.h"
#include "tests/kernels/cuda/device_tensor.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace stepwatch::kernels::cuda::test {
namespace {

using kernels::test::Difference;

const Stream kStream = reinterpret_cast<Stream>(1);

// Two tensors of a model whose step is a graph.
struct CapturedModel {
  CapturedModel() : device(1), driver(&device) {
    GraphSlotsOptions options;
    options.slots = 4;
    options.depth = 3;
    slots = std::move(GraphSlots::Create(&driver, options)).value();
    small = FlatTensor(DType::kFloat32, 1000, 0, Fill::kOrdinary, &random);
    large = FlatTensor(DType::kBFloat16, 100000, 0, Fill::kOrdinary, &random);
    small.view.stream = large.view.stream = kStream;
    device.capturing.insert(kStream);
    REQUIRE(slots->Capture(0, small.view, {}) == StatusCode::kOk);
    REQUIRE(slots->Capture(3, large.view, {}) == StatusCode::kOk);
    REQUIRE(slots->Flush(kStream) == StatusCode::kOk);
    device.capturing.clear();
  }

  std::mt19937_64 random{1};
  FakeDevice device;
  FakeDriver driver;
  std::unique_ptr<GraphSlots> slots;
  DeviceTensor small, large;
};

TEST_CASE("each replay answers under its own step, in the bits of the reference") {
  CapturedModel model;
  REQUIRE(model.slots->Enable(true, kStream) == StatusCode::kOk);
  for (uint64_t step = 0; step < 10; ++step) {
    std::byte& first = *const_cast<std::byte*>(static_cast<const std::byte*>(model.small.view.data));
    first = static_cast<std::byte>(step);
    model.device.Replay(kStream);
    for (const auto& [slot, tensor] : {std::pair{0u, &model.small}, std::pair{3u, &model.large}}) {
      Statistics found;
      REQUIRE(model.slots->Read(slot, step, &found));
      REQUIRE(Difference(found, Expected(tensor->view, {})) == "");
    }
  }
}

TEST_CASE("a reader may be late by the depth, and finds nothing beyond") {
  CapturedModel model;
  model.slots->Enable(true, kStream);
  for (int step = 0; step < 5; ++step) model.device.Replay(kStream);
  Statistics found;
  CHECK_FALSE(model.slots->Read(0, 0, &found));
  CHECK_FALSE(model.slots->Read(0, 1, &found));
  for (uint64_t step : {2, 3, 4}) CHECK(model.slots->Read(0, step, &found));
  CHECK_FALSE(model.slots->Read(0, 5, &found));
  CHECK_FALSE(model.slots->Read(1, 4, &found));  // nothing captured there
}

TEST_CASE("switched off, a replay measures nothing and steps go on") {
  CapturedModel model;  // off at first
  model.device.Replay(kStream);
  Statistics found;
  CHECK_FALSE(model.slots->Read(0, 0, &found));
  model.slots->Enable(true, kStream);
  model.device.Replay(kStream);
  CHECK(model.slots->Read(0, 1, &found));
  model.slots->Enable(false, kStream);
  model.device.Replay(kStream);
  CHECK_FALSE(model.slots->Read(0, 2, &found));
}

TEST_CASE("a slot takes one tensor, scratch memory ends, and bad options are refused") {
  FakeDevice device(1);
  FakeDriver driver(&device);
  std::mt19937_64 random(1);
  GraphSlotsOptions options;
  options.slots = 3;
  options.scratch_bytes = 1024;
  auto slots = std::move(GraphSlots::Create(&driver, options)).value();
  const DeviceTensor tensor = FlatTensor(DType::kInt8, 100, 0, Fill::kOrdinary, &random);
  CHECK(slots->Capture(0, tensor.view, {}) == StatusCode::kOk);
  CHECK(slots->Capture(0, tensor.view, {}) == StatusCode::kInvalid);
  CHECK(slots->Capture(3, tensor.view, {}) == StatusCode::kInvalid);
  const DeviceTensor large = FlatTensor(DType::kInt8, 20 * 65536, 0, Fill::kOrdinary, &random);
  CHECK(slots->Capture(1, large.view, {}) == StatusCode::kExhausted);
  options.depth = 2;
  CHECK(GraphSlots::Create(&driver, options).status().code() == StatusCode::kInvalid);
  options.depth = 3;
  device.allocations_allowed = 2;
  CHECK(GraphSlots::Create(&driver, options).status().code() == StatusCode::kExhausted);
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
