#include "kernels/histogram.h"

#include <cmath>
#include <numeric>

#include "kernels/kernels.h"
#include "tests/catch.h"
#include "tests/kernels/tensor_model.h"

namespace stepwatch::kernels::test {
namespace {

int64_t InBins(const Histogram& histogram) {
  return std::accumulate(histogram.counts().begin(), histogram.counts().end(), int64_t{0});
}

int64_t AllOf(const Histogram& histogram) {
  return InBins(histogram) + histogram.below() + histogram.above() + histogram.zeros() + histogram.nans() +
         histogram.infs();
}

Histogram ExponentsOf(const TensorView& view) {
  Histogram histogram = Histogram::Exponents();
  Statistics statistics;
  REQUIRE(Measure(view, {}, &statistics, &histogram).ok());
  return histogram;
}

Histogram LinearOf(const TensorView& view, double low, double high, int bins) {
  Histogram histogram = Histogram::Linear(low, high, bins).value();
  Statistics statistics;
  REQUIRE(Measure(view, {}, &statistics, &histogram).ok());
  return histogram;
}

TEST_CASE("an exponent bin holds one power of two of both signs") {
  const Tensor tensor = MakeTensor(DType::kFloat32, {1, -1.5, 1.9375, 2, -3, 0.5, 0, -0.0, 0x1p-149, 0x1.8p127});
  const Histogram histogram = ExponentsOf(tensor.view());
  const auto bin = [&](int exponent) {
    return histogram.counts()[static_cast<size_t>(exponent - Histogram::kExponentMin)];
  };
  CHECK(bin(0) == 3);
  CHECK(bin(1) == 2);
  CHECK(bin(-1) == 1);
  CHECK(bin(-149) == 1);
  CHECK(bin(127) == 1);
  CHECK(histogram.zeros() == 2);
  CHECK(AllOf(histogram) == 10);
}

TEST_CASE("NaN, infinities and what no bin can hold are counted aside") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor tensor =
      MakeTensor(DType::kFloat64, {std::nan(""), infinity, -infinity, 0x1p128, -1e300, 0x1p-150, 5e-324, 1});
  const Histogram histogram = ExponentsOf(tensor.view());
  CHECK(histogram.nans() == 1);
  CHECK(histogram.infs() == 2);
  CHECK(histogram.above() == 2);
  CHECK(histogram.below() == 2);
  CHECK(InBins(histogram) == 1);
}

TEST_CASE("a linear bin holds its lower edge, the last one its upper edge too") {
  const Tensor tensor = MakeTensor(DType::kFloat32, {0, 0.25, 0.5, 0.75, 0.9375, 1, -0.125, 1.125, std::nan("")});
  const Histogram histogram = LinearOf(tensor.view(), 0, 1, 4);
  CHECK(histogram.counts() == std::vector<int64_t>{1, 1, 1, 3});
  CHECK(histogram.below() == 1);
  CHECK(histogram.above() == 1);
  CHECK(histogram.nans() == 1);
}

TEST_CASE("histograms merged in any grouping are that of all elements") {
  std::mt19937_64 random(43);
  for (DType dtype : kAllDTypes) {
    const Tensor tensor = RandomTensor(dtype, 5000, Fill::kAnyBits, &random);
    for (int kind = 0; kind < 2; ++kind) {
      const auto empty = [&] { return kind == 0 ? Histogram::Exponents() : Histogram::Linear(-2, 3, 17).value(); };
      Histogram whole = empty();
      whole.Add(dtype, tensor.bytes.data(), 5000);
      Histogram left = empty(), right = empty(), middle = empty();
      const auto at = [&](int64_t i) { return tensor.bytes.data() + i * ElementSize(dtype); };
      left.Add(dtype, at(0), 1234);
      middle.Add(dtype, at(1234), 1);
      right.Add(dtype, at(1235), 3765);
      REQUIRE(right.Merge(left).ok());
      REQUIRE(right.Merge(middle).ok());
      CHECK(right.counts() == whole.counts());
      CHECK(right.below() == whole.below());
      CHECK(right.above() == whole.above());
      CHECK(right.zeros() == whole.zeros());
      CHECK(right.nans() == whole.nans());
      CHECK(right.infs() == whole.infs());
      if (kind == 0) CHECK(AllOf(whole) == 5000);
    }
  }
}

TEST_CASE("an expanded element is counted as often as it stands there, on top of what was counted before") {
  const Tensor three = MakeTensor(DType::kFloat32, {1, 2, 4});
  TensorView view = three.view({5, 3});
  view.strides = {0, 1};
  Histogram histogram = ExponentsOf(view);
  CHECK(InBins(histogram) == 15);
  Statistics statistics;
  REQUIRE(Measure(three.view(), {}, &statistics, &histogram).ok());
  CHECK(InBins(histogram) == 18);
}

TEST_CASE("bins that cannot be, and merging different ones, are refused") {
  CHECK(Histogram::Linear(0, 1, 0).status().code() == StatusCode::kInvalid);
  CHECK(Histogram::Linear(0, 1, Histogram::kBinsMax + 1).status().code() == StatusCode::kInvalid);
  CHECK(Histogram::Linear(1, 1, 3).status().code() == StatusCode::kInvalid);
  CHECK(Histogram::Linear(0, std::nan(""), 3).status().code() == StatusCode::kInvalid);
  CHECK(Histogram::Linear(-1.7e308, 1.7e308, 3).status().code() == StatusCode::kInvalid);
  Histogram linear = Histogram::Linear(0, 1, 3).value();
  CHECK(linear.Merge(Histogram::Exponents()).code() == StatusCode::kInvalid);
  CHECK(linear.Merge(Histogram::Linear(0, 2, 3).value()).code() == StatusCode::kInvalid);
}

}  // namespace
}  // namespace stepwatch::kernels::test
