// The statistics against torch's own operators, on a fixed family of tensors: every dtype, layout and kind of values.
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "front_ends/torch/tensor_view.h"
#include "kernels/kernels.h"
#include "tests/catch.h"

namespace stepwatch::tests {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEps = 1e-8;

constexpr at::ScalarType kFloats[] = {at::kDouble,   at::kFloat,         at::kHalf,
                                      at::kBFloat16, at::kFloat8_e4m3fn, at::kFloat8_e5m2};
constexpr at::ScalarType kIntegers[] = {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool};

bool IsFloat8(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat8_e4m3fn || tensor.scalar_type() == at::kFloat8_e5m2;
}

struct Named {
  std::string name;
  at::Tensor tensor;
};

// Numbers of one kind in double precision, as many as every layout below needs.
std::vector<Named> Values(int64_t count) {
  torch::manual_seed(7);
  const at::Tensor normal = torch::randn({count}, torch::kDouble);
  const auto planted = [&](std::initializer_list<double> specials) {
    at::Tensor values = normal.clone();
    int64_t at = 3;
    for (double special : specials) values[at % count] = special, at = at * 7 + 1;
    return values;
  };
  return {{"normal", normal},
          {"far from zero", normal * 0.01 + 30},
          {"tiny", normal * 1e-7},
          {"subnormal in half and single precision", normal * 1e-40},
          {"large", normal * 1e4},
          {"zeros of both signs", torch::where(normal > 0, 0.0, -0.0)},
          {"one value", torch::full({count}, 0.1, torch::kDouble)},
          {"a NaN", planted({kNan})},
          {"an infinity", planted({kInfinity})},
          {"infinities of both signs", planted({kInfinity, -kInfinity})},
          {"NaN and infinities", planted({kNan, -kInfinity, kNan, kInfinity})}};
}

// Ways to lie in memory, all of the same 70,000 elements or fewer.
std::vector<Named> Layouts(const at::Tensor& flat) {
  const at::Tensor matrix = flat.view({280, 250}), images = flat.view({7, 10, 25, 40});
  return {{"flat, more than a chunk", flat},
          {"a matrix", matrix},
          {"transposed", matrix.t()},
          {"rows with a pitch", matrix.narrow(1, 3, 91)},
          {"every third column", matrix.slice(1, 1, 250, 3)},
          {"transposed and cut", matrix.t().narrow(1, 5, 100)},
          {"channels last", images.contiguous(at::MemoryFormat::ChannelsLast)},
          {"permuted and cut", images.permute({2, 0, 3, 1}).narrow(1, 1, 5)},
          {"expanded", matrix.narrow(0, 0, 9).unsqueeze(1).expand({9, 4, 250})},
          {"all of one element", flat.narrow(0, 3, 1).expand({50, 20})},
          {"beginning at an odd element", flat.narrow(0, 1, 4097)},
          {"one element", flat.narrow(0, 3, 1)},
          {"0-d", flat[3]},
          {"empty", flat.narrow(0, 0, 0)},
          {"empty, of three dimensions", matrix.narrow(0, 0, 0).unsqueeze(2)}};
}

Statistics MeasureTensor(const at::Tensor& tensor) {
  Statistics found;
  const torch_front::SeenTensor seen = torch_front::See(tensor);
  REQUIRE(seen.problem == nullptr);
  REQUIRE(kernels::Measure(seen.view, {kEps, EpsMode::kParity}, &found).ok());
  return found;
}

bool Same(double found, double expected, double tolerance = 0) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return found == expected;
  return std::abs(found - expected) <= tolerance;
}

// torch compares 8 bits with nothing; all of their numbers are single ones too.
at::Tensor Readable(const at::Tensor& tensor) {
  return IsFloat8(tensor) ? tensor.to(at::kFloat) : tensor;
}

double ShareBelowEps(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return kNan;
  at::Tensor below;
  if (tensor.scalar_type() == at::kBool)
    below = tensor.logical_not();  // torch has no abs of it
  else
    below = (IsFloat8(tensor) ? tensor.to(at::kDouble) : tensor).abs() < kEps;
  below = below.logical_or(Readable(tensor) == 0);  // an eps that rounds to 0 leaves what is exactly zero below
  return static_cast<double>(below.sum().item<int64_t>()) / static_cast<double>(tensor.numel());
}

// What is wrong: min, max and counts exactly, sums to 1e-12.
std::string Mistakes(const at::Tensor& tensor, const Statistics& found) {
  std::string wrong;
  const auto expect = [&wrong](const char* name, bool right) { wrong += right ? "" : std::string(name) + " "; };
  const at::Tensor readable = Readable(tensor), wide = tensor.to(at::kDouble);
  const bool empty = tensor.numel() == 0;
  const double min = empty ? kNan : readable.min().item<double>(), max = empty ? kNan : readable.max().item<double>();
  expect("numel", found.numel == tensor.numel());
  expect("min", Same(found.min, min));
  expect("max", Same(found.max, max));
  expect("abs_max", Same(found.abs_max, std::isnan(min) ? kNan : std::fmax(std::abs(min), std::abs(max))));
  expect("nans", found.nans == readable.isnan().sum().item<int64_t>());
  expect("infs", found.infs == readable.isinf().sum().item<int64_t>());
  expect("zeros", Same(found.zeros, ShareBelowEps(tensor)));
  const double norm = wide.norm(2).item<double>(), magnitude = empty ? 0 : wide.abs().mean().item<double>();
  expect("norm", Same(found.norm, norm, 1e-12 * norm));
  expect("mean", Same(found.mean, wide.mean().item<double>(), 1e-12 * magnitude));
  if (tensor.numel() < 2) {
    expect("std", std::isnan(found.std_dev));
  } else {
    // torch's var adds one number after the other, and each addition is rounded.
    const double n = static_cast<double>(tensor.numel());
    const double spread = (1e-12 + n * 0x1p-52) * norm * norm / (n - 1);
    expect("std", Same(found.std_dev * found.std_dev, wide.var().item<double>(), spread));
  }
  return wrong;
}

void CheckLayouts(const at::Tensor& flat, const std::string& values) {
  for (const Named& layout : Layouts(flat)) {
    INFO(c10::toString(flat.scalar_type()) << ", " << values << ", " << layout.name);
    CHECK(Mistakes(layout.tensor, MeasureTensor(layout.tensor)) == "");
  }
}

TEST_CASE("floating-point tensors have the statistics that torch's operators give") {
  for (at::ScalarType dtype : kFloats)
    for (const Named& values : Values(70'000)) CheckLayouts(values.tensor.to(dtype), values.name);
}

TEST_CASE("integer and bool tensors have the statistics that torch's operators give") {
  torch::manual_seed(7);
  for (at::ScalarType dtype : kIntegers) {
    const bool is_signed = dtype != at::kByte && dtype != at::kBool;
    CheckLayouts(torch::randint(is_signed ? -100 : 0, 101, {70'000}, torch::kLong).to(dtype), "random");
    CheckLayouts(torch::zeros({70'000}, dtype), "zeros");
  }
}

TEST_CASE("extremes of wide integers are exact beyond the reach of double precision") {
  const int64_t large = std::numeric_limits<int64_t>::max() - 1;
  const Statistics found = MeasureTensor(torch::tensor(std::vector<int64_t>{-large, 5, large}, torch::kLong));
  CHECK(found.integral);
  CHECK(found.min_int == -large);
  CHECK(found.max_int == large);
}

TEST_CASE("the agreement of signs is that of torch's signs summed in double precision") {
  torch::manual_seed(7);
  const at::Tensor first = torch::randn({300, 70}), other = torch::randn({70, 300}).t();
  for (at::ScalarType dtype : kFloats) {
    const at::Tensor a = first.to(dtype), b = other.to(dtype);
    double found = -1;
    REQUIRE(kernels::SignAgreement(torch_front::See(a).view, torch_front::See(b).view, &found).ok());
    const at::Tensor products = a.to(at::kDouble).sign() * b.to(at::kDouble).sign();
    CHECK(found == (products.sum().item<double>() / 21'000 + 1) / 2);
  }
}

TEST_CASE("a half-precision tensor of equal signs agrees with itself, where torch's own sum overflows") {
  const at::Tensor ones = torch::ones({200'000}, torch::kHalf);
  double found = -1;
  REQUIRE(kernels::SignAgreement(torch_front::See(ones).view, torch_front::See(ones).view, &found).ok());
  CHECK(found == 1);
}

}  // namespace
}  // namespace stepwatch::tests
