#include <cmath>
#include <limits>

#include "kernels/cpu_engine.h"
#include "tests/catch.h"
#include "tests/kernels/tensor_model.h"

namespace stepwatch::kernels::test {
namespace {

double Agreement(const TensorView& a, const TensorView& b) {
  double agreement = -1;
  REQUIRE(SignAgreement(a, b, &agreement).ok());
  return agreement;
}

TEST_CASE("sign agreement is 1 for equal signs, 0 for opposite ones and counts the rest in between") {
  for (DType dtype : kInfiniteDTypes) {
    const Tensor a = MakeTensor(dtype, {1, -2, 3, -4});
    CHECK(Agreement(a.view(), MakeTensor(dtype, {5, -1, 0.5, -kInf}).view()) == 1);
    CHECK(Agreement(a.view(), MakeTensor(dtype, {-5, 1, -0.5, kInf}).view()) == 0);
    CHECK(Agreement(a.view(), MakeTensor(dtype, {5, -1, -0.5, 2}).view()) == 0.5);
    CHECK(Agreement(a.view(), MakeTensor(dtype, {5, -1, 0, 0}).view()) == 0.75);
  }
}

TEST_CASE("NaN and zeros of both signs have no sign") {
  for (DType dtype : kInfiniteDTypes) {
    const Tensor a = MakeTensor(dtype, {1, -1, 1, -1});
    CHECK(Agreement(a.view(), MakeTensor(dtype, {kNan, kNan, -0.0, 0}).view()) == 0.5);
    CHECK(Agreement(MakeTensor(dtype, {-0.0, kNan}).view(), MakeTensor(dtype, {-1, -1}).view()) == 0.5);
  }
}

TEST_CASE("sign agreement of many half-precision values does not overflow") {
  const Tensor a = MakeRawTensor(DType::kFloat16, std::vector<uint16_t>(200000, 0x3c00));
  CHECK(Agreement(a.view(), a.view()) == 1);
}

TEST_CASE("sign agreement pairs elements in logical order whatever the layouts and dtypes") {
  const Tensor a = MakeTensor(DType::kFloat32, {1, 1, 1, -1, -1, -1});
  const Tensor b = MakeTensor(DType::kInt16, {1, -1, 1, -1, 1, -1});  // the transpose of a, in column-major order
  TensorView transposed = b.view({2, 3});
  transposed.strides = {1, 2};
  CHECK(Agreement(a.view({2, 3}), transposed) == 1);
  CHECK(Agreement(a.view({2, 3}), b.view({2, 3})) == Approx(4.0 / 6));
  TensorView expanded = MakeTensor(DType::kFloat32, {1}).view();
  const Tensor one = MakeTensor(DType::kFloat32, {1});
  expanded = one.view({2, 3});
  expanded.strides = {0, 0};
  CHECK(Agreement(a.view({2, 3}), expanded) == 0.5);
}

TEST_CASE("shapes that differ have agreement 0, empty tensors 1") {
  const Tensor a = MakeTensor(DType::kFloat32, {1, 2, 3, 4});
  CHECK(Agreement(a.view({2, 2}), a.view()) == 0);
  CHECK(Agreement(a.view({2, 2}), a.view({4, 1})) == 0);
  CHECK(Agreement(a.view(), a.view({2})) == 0);
  CHECK(Agreement(a.view({0}), a.view({0})) == 1);
  CHECK(Agreement(a.view({}), a.view({})) == 1);
}

TEST_CASE("sign agreement of what cannot be read is refused") {
  const Tensor a = MakeTensor(DType::kFloat32, {1});
  TensorView other = a.view();
  other.dtype = DType::kOther;
  double agreement = -1;
  CHECK(SignAgreement(a.view(), other, &agreement).code() == StatusCode::kUnsupported);
  CHECK(SignAgreement(other, a.view(), &agreement).code() == StatusCode::kUnsupported);
  TensorView device = a.view();
  device.device.kind = DeviceKind::kCuda;
  CHECK(SignAgreement(a.view(), device, &agreement).code() == StatusCode::kUnsupported);
  CHECK(agreement == -1);
}

TEST_CASE("every level counts signs alike at all sizes") {
  std::mt19937_64 random(31);
  for (DType dtype : kAllDTypes) {
    for (int64_t n = 0; n <= 100; ++n) {
      const Tensor a = RandomTensor(dtype, n, Fill::kAnyBits, &random);
      const Tensor b = RandomTensor(dtype, n, Fill::kAnyBits, &random);
      const double expected = ModelAgreement(a.view(), b.view());
      for (const Level* level : AvailableLevels()) {
        double found = -1;
        REQUIRE(cpu::SignAgreement(*level, a.view(), b.view(), &found).ok());
        if (found != expected) FAIL(level->name << " " << DTypeName(dtype) << " " << n);
      }
    }
  }
}

}  // namespace
}  // namespace stepwatch::kernels::test
