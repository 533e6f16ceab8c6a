// Sums by trees of fp32, for parts where fp64 is slow: a stated tolerance instead of the reference's bits.

#include <cmath>
#include <cstring>

#include "kernels/cuda/engine.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device_tensor.h"
#include "tests/kernels/cuda/fake_driver.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::cuda::test {
namespace {

Statistics MeasureByTrees(const TensorView& view, uint64_t seed) {
  FakeDevice device(seed);
  device.slow_fp64 = true;
  device.multiprocessors = static_cast<uint32_t>(1 + seed % 5);
  auto engine = Engine::Create(std::make_unique<FakeDriver>(&device), {});
  REQUIRE(engine.ok());
  DeviceItem item{view};
  engine.value()->Enqueue(&item, 1, {});
  Statistics found;
  REQUIRE(engine.value()->Harvest(item.ticket, &found));
  return found;
}

// The mean of magnitudes, which the error of a mean is measured by.
double Scale(const Statistics& statistics) {
  return statistics.norm / std::sqrt(static_cast<double>(statistics.numel));
}

TEST_CASE("trees keep the norm to 4e-7, and everything that is not a sum to the bit") {
  std::mt19937_64 random(1);
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    const DeviceTensor tensor =
        FlatTensor(dtype, testing::Rounds(150001, 4), dtype == DType::kFloat32 ? 4 : 2, Fill::kOrdinary, &random);
    const Statistics expected = Expected(tensor.view, {}), found = MeasureByTrees(tensor.view, 1);
    INFO(DTypeName(dtype));
    CHECK(found.norm == Approx(expected.norm).epsilon(4e-7));
    CHECK(std::abs(found.mean - expected.mean) <= 4e-7 * Scale(expected));
    CHECK(found.min == expected.min);
    CHECK(found.max == expected.max);
    CHECK(found.zeros == expected.zeros);
    CHECK(kernels::test::Difference(found, MeasureByTrees(tensor.view, 3)) == "");  // whatever the grid
  }
}

TEST_CASE("numbers whose squares leave the range of fp32 are summed in fp64") {
  std::mt19937_64 random(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (Fill fill : {Fill::kTiny, Fill::kHuge}) {
      const DeviceTensor tensor = FlatTensor(dtype, testing::Rounds(50000, 4), 0, fill, &random);
      const Statistics expected = Expected(tensor.view, {}), found = MeasureByTrees(tensor.view, 1);
      INFO(DTypeName(dtype));
      CHECK(kernels::test::Difference(found, expected) == "");
      CHECK(found.norm > 0);
    }
  }
}

TEST_CASE("one tile of tiny numbers beside ordinary ones changes nothing") {
  std::mt19937_64 random(3);
  DeviceTensor tensor = FlatTensor(DType::kFloat32, 4 * 16384, 0, Fill::kOrdinary, &random);
  std::vector<float> tiny(16384, 1e-30f);
  std::memcpy(tensor.memory.data() + 16384 * 4, tiny.data(), tiny.size() * 4);
  const Statistics expected = Expected(tensor.view, {});
  CHECK(MeasureByTrees(tensor.view, 1).norm == Approx(expected.norm).epsilon(4e-7));
}

TEST_CASE("trees find NaN and infinity") {
  std::mt19937_64 random(4);
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2}) {
    const DeviceTensor tensor = FlatTensor(dtype, testing::Rounds(70000, 2), 0, Fill::kFewSpecial, &random);
    const Statistics expected = Expected(tensor.view, {}), found = MeasureByTrees(tensor.view, 1);
    INFO(DTypeName(dtype));
    CHECK(found.nans == expected.nans);
    CHECK(found.nans > 0);
    CHECK(found.infs == expected.infs);
    CHECK(std::isnan(found.norm));
    CHECK(std::isnan(found.min));
  }
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
