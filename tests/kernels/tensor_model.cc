#include "tests/kernels/tensor_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "tests/random_seed.h"

namespace stepwatch::kernels::test {
namespace {

template <class T>
T Read(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

long double DecodeBits(unsigned code, int exponent_bits, int mantissa_bits) {
  const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((code >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const long double sign = (code >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::numeric_limits<long double>::quiet_NaN()
                         : sign * std::numeric_limits<long double>::infinity();
  const long double fraction = std::ldexp(static_cast<long double>(mantissa), -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

long double DecodeE4M3(unsigned code) {
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<long double>::quiet_NaN();
  // With the top exponent an ordinary one, a wider format of the same bias reads it.
  const unsigned wide = (code & 0x80) << 1 | (code & 0x7f);
  return std::ldexp(DecodeBits(wide, 5, 3), 8);
}

double NearestOf16Bits(DType dtype, double value) {
  double best = 0;
  for (uint32_t code = 0; code < 0x8000; ++code) {
    const uint16_t half = static_cast<uint16_t>(code);
    const double candidate = static_cast<double>(Decode(dtype, &half));
    if (!std::isfinite(candidate)) break;
    const double gain = std::abs(best - value) - std::abs(candidate - value);
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = candidate;
  }
  return best;
}

double RoundedEps(DType dtype, const MeasureOptions& options) {
  if (options.eps_mode == EpsMode::kExact) return options.eps;
  const double single = static_cast<float>(options.eps);
  if (dtype == DType::kFloat32) return single;
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) return NearestOf16Bits(dtype, single);
  return options.eps;
}

// As torch rounds eps, except that what is exactly zero lies below every eps but 0.
double ModelThreshold(DType dtype, const MeasureOptions& options) {
  const double rounded = RoundedEps(dtype, options);
  return options.eps > 0 ? std::max(rounded, std::numeric_limits<double>::denorm_min()) : rounded;
}

// Every element in logical order, straight from sizes and strides.
std::vector<long double> Elements(const TensorView& tensor) {
  std::vector<long double> elements;
  for (int64_t i = 0; i < tensor.numel; ++i) {
    int64_t rest = i, offset = 0;
    for (int dim = tensor.ndim - 1; dim >= 0; --dim) {
      const size_t d = static_cast<size_t>(dim);
      offset += rest % tensor.sizes[d] * tensor.strides[d];
      rest /= tensor.sizes[d];
    }
    elements.push_back(
        Decode(tensor.dtype, static_cast<const char*>(tensor.data) + offset * ElementSize(tensor.dtype)));
  }
  return elements;
}

struct Model {
  long double sum = 0, sum_of_squares = 0, sum_of_magnitudes = 0;
  long double min = std::numeric_limits<long double>::infinity(), max = -min;
  int64_t zeros = 0, nans = 0, infs = 0;
};

Model ModelOf(const std::vector<long double>& elements, double threshold) {
  Model model;
  for (long double x : elements) {
    model.sum += x;
    model.sum_of_squares += x * x;
    model.sum_of_magnitudes += std::abs(x);
    if (x < model.min) model.min = x;
    if (x > model.max) model.max = x;
    model.zeros += std::abs(x) < threshold;
    model.nans += std::isnan(x);
    model.infs += std::isinf(x);
  }
  return model;
}

bool Near(double found, long double expected, long double tolerance) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return found == static_cast<double>(expected);
  return std::abs(found - expected) <= tolerance;
}

void Expect(bool right, const char* name, double found, long double expected, std::string* mistakes) {
  if (right) return;
  char text[128];
  std::snprintf(text, sizeof text, "%s is %.17g, expected %.17Lg; ", name, found, expected);
  *mistakes += text;
}

void ExpectSame(const char* name, double found, long double expected, std::string* mistakes) {
  Expect(std::isnan(expected) ? std::isnan(found) : found == expected, name, found, expected, mistakes);
}

void ExpectSums(const Model& model, const Statistics& found, std::string* mistakes) {
  const long double n = static_cast<long double>(found.numel);
  const long double mean = model.sum / n;
  const long double norm = std::sqrt(model.sum_of_squares);
  Expect(Near(found.mean, mean, 1e-12L * model.sum_of_magnitudes / n), "mean", found.mean, mean, mistakes);
  Expect(Near(found.norm, norm, 1e-12L * norm), "norm", found.norm, norm, mistakes);
  if (found.numel < 2 || !std::isfinite(model.sum_of_squares)) {
    Expect(std::isnan(found.std_dev), "std", found.std_dev, std::numeric_limits<double>::quiet_NaN(), mistakes);
  } else {
    const long double variance = (model.sum_of_squares - model.sum * mean) / (n - 1);
    Expect(Near(found.std_dev * found.std_dev, variance, 1e-12L * model.sum_of_squares / (n - 1)), "std^2",
           found.std_dev * found.std_dev, variance, mistakes);
  }
}

}  // namespace

long double Decode(DType dtype, const void* address) {
  switch (dtype) {
    case DType::kFloat64: return Read<double>(address);
    case DType::kFloat32: return Read<float>(address);
    case DType::kFloat16: return DecodeBits(Read<uint16_t>(address), 5, 10);
    case DType::kBFloat16: return DecodeBits(Read<uint16_t>(address), 8, 7);
    case DType::kFloat8E4M3: return DecodeE4M3(Read<uint8_t>(address));
    case DType::kFloat8E5M2: return DecodeBits(Read<uint8_t>(address), 5, 2);
    case DType::kInt64: return static_cast<long double>(Read<int64_t>(address));
    case DType::kInt32: return Read<int32_t>(address);
    case DType::kInt16: return Read<int16_t>(address);
    case DType::kInt8: return Read<int8_t>(address);
    case DType::kUInt8: return Read<uint8_t>(address);
    case DType::kBool: return Read<uint8_t>(address) != 0;
    case DType::kOther: break;
  }
  throw std::invalid_argument("no such dtype");
}

TensorView Tensor::view() const {
  return view({static_cast<int64_t>(bytes.size()) / ElementSize(dtype)});
}

TensorView Tensor::view(std::initializer_list<int64_t> sizes) const {
  return DenseView(bytes.data(), dtype, sizes.begin(), static_cast<int>(sizes.size()));
}

Tensor MakeTensor(DType dtype, const std::vector<double>& values) {
  const size_t size = static_cast<size_t>(ElementSize(dtype));
  Tensor tensor{dtype, {}};
  for (double value : values) {
    uint64_t code = 0;
    if (size == 8) {
      const int64_t integer = std::isfinite(value) ? static_cast<int64_t>(value) : 0;
      std::memcpy(&code, dtype == DType::kFloat64 ? static_cast<void*>(&value) : const_cast<int64_t*>(&integer), 8);
    } else if (dtype == DType::kFloat32) {
      const float single = static_cast<float>(value);
      std::memcpy(&code, &single, 4);
    } else if (dtype == DType::kInt32) {
      code = static_cast<uint32_t>(static_cast<int32_t>(value));
    } else {
      const auto matches = [&] {
        const long double x = Decode(dtype, &code);
        return std::isnan(value) ? std::isnan(x) : x == value && std::signbit(x) == std::signbit(value);
      };
      while (!matches())
        if (++code >> (8 * size) != 0) throw std::invalid_argument("the dtype does not hold this value");
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(&code);
    tensor.bytes.insert(tensor.bytes.end(), bytes, bytes + size);
  }
  return tensor;
}

Tensor RandomTensor(DType dtype, int64_t count, Fill fill, std::mt19937_64* random) {
  const size_t size = static_cast<size_t>(ElementSize(dtype));
  Tensor tensor{dtype, std::vector<std::byte>(static_cast<size_t>(count) * size)};
  const int top = static_cast<int>(8 * size) - 1;
  const bool wide_exponent = dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kBFloat16;
  const int exponent_bits = dtype == DType::kFloat64 ? 11 : wide_exponent ? 8 : dtype == DType::kFloat8E4M3 ? 4 : 5;
  const int exponent_low = top - exponent_bits;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    uint64_t code = (*random)();
    const bool any = fill == Fill::kAnyBits || (fill == Fill::kFewSpecial && (*random)() % 100 == 0);
    if (!IsIntegral(dtype) && !any) {
      const uint64_t field = (uint64_t{1} << exponent_bits) - 1;
      const uint64_t bias = field >> 1;
      uint64_t exponent = bias - 3 + (*random)() % 5;
      if (fill == Fill::kTiny) exponent = (*random)() % 3;
      if (fill == Fill::kHuge) exponent = field - 1 - (*random)() % 3;
      code = (code & ~(field << exponent_low)) | exponent << exponent_low;
    }
    std::memcpy(tensor.bytes.data() + i * size, &code, size);
  }
  return tensor;
}

// The offsets, in elements, of the lowest and the highest element from the first.
static std::pair<int64_t, int64_t> Reach(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::pair<int64_t, int64_t> reach{0, 0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t last = std::max<int64_t>(sizes[i] - 1, 0) * strides[i];
    (last < 0 ? reach.first : reach.second) += last;
  }
  return reach;
}

int64_t SpanOf(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  const auto [lowest, highest] = Reach(sizes, strides);
  return highest - lowest + 1;
}

OwnedTensor StridedTensor(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                          size_t shift, const std::vector<std::byte>& bytes) {
  OwnedTensor tensor{std::vector<std::byte>(shift + bytes.size()), {}};
  std::copy(bytes.begin(), bytes.end(), tensor.memory.begin() + static_cast<std::ptrdiff_t>(shift));
  const std::byte* first = tensor.memory.data() + shift - Reach(sizes, strides).first * ElementSize(dtype);
  tensor.view = DenseView(first, dtype, sizes.data(), static_cast<int>(sizes.size()));
  std::copy(strides.begin(), strides.end(), tensor.view.strides.begin());
  return tensor;
}

OwnedTensor StridedTensor(DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                          size_t shift, Fill fill, std::mt19937_64* random) {
  return StridedTensor(dtype, sizes, strides, shift, RandomTensor(dtype, SpanOf(sizes, strides), fill, random).bytes);
}

std::string Mistakes(const TensorView& tensor, const MeasureOptions& options, const Statistics& found) {
  const Model model = ModelOf(Elements(tensor), ModelThreshold(tensor.dtype, options));
  const bool empty = tensor.numel == 0;
  const bool no_extremes = empty || model.nans > 0;
  std::string mistakes;
  ExpectSame("numel", static_cast<double>(found.numel), tensor.numel, &mistakes);
  ExpectSame("nans", static_cast<double>(found.nans), model.nans, &mistakes);
  ExpectSame("infs", static_cast<double>(found.infs), model.infs, &mistakes);
  const double share = static_cast<double>(model.zeros) / static_cast<double>(tensor.numel);
  ExpectSame("zeros", found.zeros, empty ? kNan : share, &mistakes);
  const double min = static_cast<double>(model.min), max = static_cast<double>(model.max);
  ExpectSame("min", found.min, no_extremes ? kNan : min, &mistakes);
  ExpectSame("max", found.max, no_extremes ? kNan : max, &mistakes);
  ExpectSame("abs_max", found.abs_max, no_extremes ? kNan : std::fmax(std::abs(min), std::abs(max)), &mistakes);
  ExpectSame("integral", found.integral, IsIntegral(tensor.dtype) && !empty, &mistakes);
  if (found.integral && (found.min_int != model.min || found.max_int != model.max)) mistakes += "min_int or max_int; ";
  if (empty) {
    ExpectSame("norm", found.norm, 0, &mistakes);
    ExpectSame("mean", found.mean, kNan, &mistakes);
    ExpectSame("std", found.std_dev, kNan, &mistakes);
  } else if (!std::isfinite(model.sum_of_squares) || model.sum_of_squares == 0 ||
             (model.sum_of_squares < 1e300L && model.sum_of_squares > 1e-280L)) {
    ExpectSums(model, found, &mistakes);  // beyond, squares of fp64 overflow or underflow as they do in torch
  }
  return mistakes;
}

double ModelAgreement(const TensorView& a, const TensorView& b) {
  const std::vector<long double> x = Elements(a), y = Elements(b);
  if (x.empty()) return 1;
  const auto sign = [](long double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; };
  int64_t sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += sign(x[i]) * sign(y[i]);
  return (static_cast<double>(sum) / static_cast<double>(x.size()) + 1) / 2;
}

std::string Difference(const Statistics& a, const Statistics& b) {
  std::string names;
  const auto compare = [&](const char* name, const auto& x, const auto& y) {
    if (std::memcmp(&x, &y, sizeof x) != 0) names += std::string(name) + " ";
  };
  compare("numel", a.numel, b.numel);
  compare("norm", a.norm, b.norm);
  compare("mean", a.mean, b.mean);
  compare("min", a.min, b.min);
  compare("max", a.max, b.max);
  compare("abs_max", a.abs_max, b.abs_max);
  compare("zeros", a.zeros, b.zeros);
  compare("std", a.std_dev, b.std_dev);
  compare("nans", a.nans, b.nans);
  compare("infs", a.infs, b.infs);
  compare("integral", a.integral, b.integral);
  compare("min_int", a.min_int, b.min_int);
  compare("max_int", a.max_int, b.max_int);
  return names;
}

Statistics MeasureOrFail(const TensorView& tensor, const MeasureOptions& options) {
  Statistics statistics;
  if (const Status status = Measure(tensor, options, &statistics); !status.ok())
    throw std::runtime_error(status.ToString());
  return statistics;
}

uint64_t RandomSeed() {
  return stepwatch::test::RandomSeed();
}

int64_t Below(int64_t bound, std::mt19937_64* random) {
  return static_cast<int64_t>((*random)() % static_cast<uint64_t>(bound));
}

std::vector<int64_t> RandomStrides(const std::vector<int64_t>& sizes, std::mt19937_64* random) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (Below(3, random) == 0) std::shuffle(order.begin(), order.end(), *random);
  const bool gaps = Below(2, random) == 0, wild = Below(5, random) == 0, repeats = Below(4, random) == 0;
  const int64_t unit = Below(2, random) == 0 ? 16 : 1;  // of gaps
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = gaps && Below(4, random) == 0 ? 1 + Below(3, random) : 1;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t dim = order[i];
    strides[dim] = stride;
    if (wild) strides[dim] = Below(9, random) - 2;
    if (repeats && Below(2, random) == 0) strides[dim] = 0;
    stride *= std::max<int64_t>(sizes[dim], 1);
    if (gaps && Below(2, random) == 0) stride += unit * Below(4, random);
  }
  return strides;
}

std::string Describe(const TensorView& view) {
  std::string text = DTypeName(view.dtype);
  for (size_t i = 0; i < static_cast<size_t>(std::clamp(view.ndim, 0, kDimsMax)); ++i)
    text += " " + std::to_string(view.sizes[i]) + "/" + std::to_string(view.strides[i]);
  return text + ", numel " + std::to_string(view.numel) + ", " + std::to_string(view.ndim) + " dimensions, at " +
         std::to_string(reinterpret_cast<uintptr_t>(view.data) % 16);
}

}  // namespace stepwatch::kernels::test
