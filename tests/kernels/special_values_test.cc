// The effect of NaN, infinities, zeros, subnormals and empty tensors on each statistic, in every dtype that has them.

#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/kernels/tensor_model.h"

namespace stepwatch::kernels::test {
namespace {

constexpr DType kFloats[] = {DType::kFloat64,  DType::kFloat32,    DType::kFloat16,
                             DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2};

struct Row {
  const char* what;
  std::vector<double> values;
  double min, max, mean, norm, zeros;
  int64_t nans, infs;
};

bool Same(double a, double b) {
  return std::isnan(b) ? std::isnan(a) : a == b;
}

TEST_CASE("special values do what torch does with them") {
  const Row rows[] = {
      {"a NaN", {0, kNan, 2, -1}, kNan, kNan, kNan, kNan, 0.25, 1, 0},
      {"two NaN", {kNan, 0, 0, kNan}, kNan, kNan, kNan, kNan, 0.5, 2, 0},
      {"only NaN", {kNan}, kNan, kNan, kNan, kNan, 0, 1, 0},
      {"+Inf", {1, kInf, 0, -3}, -3, kInf, kInf, kInf, 0.25, 0, 1},
      {"-Inf", {1, -kInf, 0, -3}, -kInf, 1, -kInf, kInf, 0.25, 0, 1},
      {"+Inf and -Inf", {kInf, 1, -kInf, 0}, -kInf, kInf, kNan, kInf, 0.25, 0, 2},
      {"Inf and NaN", {kInf, kNan, 0, 1}, kNan, kNan, kNan, kNan, 0.25, 1, 1},
      {"zeros of both signs", {-0.0, 0.0, -0.0, 0.0}, 0, 0, 0, 0, 1, 0, 0},
      {"negative zeros", {-0.0, -0.0}, 0, 0, 0, 0, 1, 0, 0},
  };
  for (const Row& row : rows) {
    for (DType dtype : kInfiniteDTypes) {
      INFO(row.what << " in " << DTypeName(dtype));
      const Statistics found = MeasureOrFail(MakeTensor(dtype, row.values).view(), {1e-8, EpsMode::kExact});
      CHECK(Same(found.min, row.min));
      CHECK(Same(found.max, row.max));
      CHECK(Same(found.mean, row.mean));
      CHECK(Same(found.norm, row.norm));
      CHECK(found.zeros == row.zeros);
      CHECK(found.nans == row.nans);
      CHECK(found.infs == row.infs);
      CHECK(Same(found.abs_max, row.nans > 0 ? kNan : row.infs > 0 ? kInf : 0));
      if (row.nans > 0 || row.infs > 0) CHECK(std::isnan(found.std_dev));
    }
  }
}

TEST_CASE("an extreme of zero is positive zero whatever the order of the zeros") {
  for (DType dtype : kFloats) {
    const Statistics found = MeasureOrFail(MakeTensor(dtype, {-0.0, 0.0, -0.0}).view());
    CHECK_FALSE(std::signbit(found.min));
    CHECK_FALSE(std::signbit(found.max));
    CHECK_FALSE(std::signbit(found.mean));
  }
}

TEST_CASE("an empty tensor has norm 0, no counts and nothing else") {
  for (DType dtype : kAllDTypes) {
    INFO(DTypeName(dtype));
    for (const auto& sizes : {std::vector<int64_t>{0}, {3, 0}, {0, 4}, {2, 0, 5}}) {
      const TensorView view = DenseView(nullptr, dtype, sizes.data(), static_cast<int>(sizes.size()));
      const Statistics found = MeasureOrFail(view);
      CHECK(found.numel == 0);
      CHECK(found.norm == 0);
      CHECK(found.nans == 0);
      CHECK(found.infs == 0);
      CHECK_FALSE(found.integral);
      for (double value : {found.mean, found.min, found.max, found.abs_max, found.zeros, found.std_dev})
        CHECK(std::isnan(value));
    }
  }
}

TEST_CASE("eps is rounded to the dtype as torch does, unless the exact mode is asked for") {
  struct Case {
    DType dtype;
    double eps;
    double value;
    bool parity, exact;
  };
  const double half_of_smallest = std::ldexp(1, -25), below_one = 1 - std::ldexp(1, -11);
  const Case cases[] = {
      // An eps that rounds to 0, as a tie or by way of fp32 as well, still leaves what is exactly zero below.
      {DType::kFloat16, 1e-8, 0, true, true},
      {DType::kFloat16, 1e-8, -0.0, true, true},
      {DType::kFloat16, 1e-8, 2 * half_of_smallest, false, false},
      {DType::kFloat16, half_of_smallest, 0, true, true},
      {DType::kFloat16, half_of_smallest * (1 + 1e-10), 0, true, true},
      {DType::kFloat16, half_of_smallest * (1 + 1e-10), 2 * half_of_smallest, false, false},
      {DType::kFloat16, 0, 0, false, false},
      {DType::kFloat16, 3e-8, 0, true, true},
      {DType::kFloat16, 1e6, 65504, true, true},  // infinity in fp16
      {DType::kFloat16, below_one + std::ldexp(1, -13), below_one, false, true},
      {DType::kBFloat16, 1e-8, 0, true, true},
      {DType::kBFloat16, 1 + std::ldexp(1, -8) + std::ldexp(1, -40), 1, false, true},  // rounded twice
      {DType::kFloat32, 1e-8, 0, true, true},
      {DType::kFloat32, 1e-60, 0, true, true},
      {DType::kFloat32, 1e-60, std::ldexp(1, -149), false, false},
      {DType::kFloat32, 0, 0, false, false},
      {DType::kBFloat16, 1e-60, 0, true, true},
      {DType::kBFloat16, 1e-60, std::ldexp(1, -133), false, false},
      {DType::kFloat32, 1e300, 3e38, true, true},
      {DType::kFloat64, 1e-60, 0, true, true},
      {DType::kFloat8E4M3, 1e-8, 0, true, true},
      {DType::kFloat8E5M2, 1e-8, 0, true, true},
      {DType::kBool, 1e-8, 0, true, true},
      {DType::kInt32, 5.5, -5, true, true},
      {DType::kInt32, 5, -5, false, false},
      {DType::kInt8, 127.5, -128, false, false},
  };
  for (const Case& c : cases) {
    INFO(DTypeName(c.dtype) << " eps " << c.eps << " value " << c.value);
    const Tensor tensor = MakeTensor(c.dtype, {c.value});
    CHECK(MeasureOrFail(tensor.view(), {c.eps, EpsMode::kParity}).zeros == (c.parity ? 1 : 0));
    CHECK(MeasureOrFail(tensor.view(), {c.eps, EpsMode::kExact}).zeros == (c.exact ? 1 : 0));
  }
  // bf16(1e-8) is 1.0012e-8: the comparison is strict.
  const double rounded = static_cast<double>(Decode(DType::kBFloat16, "\x2c\x32"));
  CHECK(rounded == Approx(1.0012e-8).epsilon(1e-4));
  CHECK(MeasureOrFail(MakeTensor(DType::kBFloat16, {rounded}).view()).zeros == 0);
}

TEST_CASE("squares of fp64 overflow to infinity as in torch, and the data still counts as finite") {
  const Statistics found = MeasureOrFail(MakeTensor(DType::kFloat64, {1e200, -3e200, 1}).view());
  CHECK(found.norm == kInf);
  CHECK(found.mean == Approx(-2e200 / 3));
  CHECK(found.min == -3e200);
  CHECK(found.max == 1e200);
  CHECK(found.infs == 0);
  CHECK(found.nans == 0);
  CHECK(std::isnan(found.std_dev));
}

TEST_CASE("subnormal numbers keep their value") {
  const Statistics single =
      MeasureOrFail(MakeRawTensor<uint32_t>(DType::kFloat32, {1, 3}).view(), {0, EpsMode::kExact});
  CHECK(single.min == std::ldexp(1, -149));
  CHECK(single.max == std::ldexp(3, -149));
  CHECK(single.norm == Approx(std::sqrt(10.0) * std::ldexp(1, -149)).epsilon(1e-14));
  CHECK(single.zeros == 0);
  const Statistics half = MeasureOrFail(MakeRawTensor<uint16_t>(DType::kFloat16, {0x8001, 0x03ff}).view());
  CHECK(half.min == -std::ldexp(1, -24));
  CHECK(half.max == std::ldexp(1023, -24));
}

TEST_CASE("extremes of 64-bit integers are exact") {
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min(), kHigh = std::numeric_limits<int64_t>::max();
  const Statistics all = MeasureOrFail(MakeRawTensor<int64_t>(DType::kInt64, {kHigh, 5, kLow}).view());
  CHECK(all.integral);
  CHECK(all.min_int == kLow);
  CHECK(all.max_int == kHigh);
  CHECK(all.abs_max == std::ldexp(1, 63));
  const int64_t odd = (int64_t{1} << 53) + 1;
  const Statistics close = MeasureOrFail(MakeRawTensor<int64_t>(DType::kInt64, {odd, odd + 1}).view());
  CHECK(close.min_int == odd);
  CHECK(close.max_int == odd + 1);
}

TEST_CASE("bool is measured, and any byte but 0 is true") {
  const Statistics found = MeasureOrFail(MakeRawTensor<uint8_t>(DType::kBool, {0, 1, 255, 2}).view());
  CHECK(found.integral);
  CHECK(found.min_int == 0);
  CHECK(found.max_int == 1);
  CHECK(found.mean == 0.75);
  CHECK(found.zeros == 0.25);
}

TEST_CASE("a constant tensor has standard deviation exactly 0") {
  CHECK(MeasureOrFail(MakeTensor(DType::kFloat64, std::vector<double>(1000, 0.1)).view()).std_dev == 0);
  CHECK(MeasureOrFail(MakeTensor(DType::kFloat64, {0.1}).view()).numel == 1);
}

TEST_CASE("rounding never makes the variance of nearly constant data negative") {
  for (int n = 2; n < 300; ++n) {
    std::vector<double> values(static_cast<size_t>(n), 0.1 * n);
    values.back() = std::nextafter(values.back(), 100);
    const double found = MeasureOrFail(MakeTensor(DType::kFloat64, values).view()).std_dev;
    if (!(found >= 0 && found < 1e-6 * n)) FAIL("n " << n << " gives " << found);
  }
}

TEST_CASE("a view that cannot be measured is refused with a reason") {
  const Tensor tensor = MakeTensor(DType::kFloat32, {1, 2, 3});
  const auto code = [&](void (*spoil)(TensorView*)) {
    TensorView view = tensor.view();
    spoil(&view);
    Statistics statistics;
    return Measure(view, {}, &statistics).code();
  };
  CHECK(code([](TensorView* view) { view->dtype = DType::kOther; }) == StatusCode::kUnsupported);
  CHECK(code([](TensorView* view) { view->device.kind = DeviceKind::kCuda; }) == StatusCode::kUnsupported);
  CHECK(code([](TensorView* view) { view->numel = 4; }) == StatusCode::kInvalid);
  CHECK(code([](TensorView* view) { view->data = nullptr; }) == StatusCode::kInvalid);
  CHECK(code([](TensorView* view) { view->ndim = kDimsMax + 1; }) == StatusCode::kInvalid);
  CHECK(code([](TensorView* view) { view->sizes[0] = view->numel = -3; }) == StatusCode::kInvalid);
  CHECK(code([](TensorView* view) {
          view->ndim = 3;
          view->sizes = {int64_t{1} << 40, int64_t{1} << 40, 3};
        }) == StatusCode::kInvalid);
}

}  // namespace
}  // namespace stepwatch::kernels::test
