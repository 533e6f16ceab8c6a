#include "kernels/cuda/answers.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cuda/keys.h"
#include "kernels/formats.h"

namespace stepwatch::kernels::cuda {
namespace {

// The number whose 16-bit sign-and-magnitude code has this key.
template <class Decode>
double FromCodeKey(int64_t key, Decode decode) {
  const double magnitude = decode(static_cast<uint16_t>(key < 0 ? -key : key));
  return key < 0 ? -magnitude : magnitude;
}

double NumberOfKey(int64_t key, DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return std::bit_cast<double>(KeyOfBits(static_cast<uint64_t>(key)));
    case DType::kFloat32: return static_cast<double>(std::bit_cast<float>(BitsOfKey(static_cast<int32_t>(key))));
    case DType::kBFloat16: return FromCodeKey(key, DecodeBFloat16);
    case DType::kFloat16:
    case DType::kFloat8E5M2: return FromCodeKey(key, DecodeFloat16);
    case DType::kFloat8E4M3: return FromCodeKey(key, DecodeFloat16) * 256;
    default: return static_cast<double>(key);
  }
}

// The smallest code, up to `infinity`, whose number is not below the threshold: magnitudes are in the order of codes.
template <class Code>
uint32_t FirstCodeAt(double threshold, uint32_t infinity, double (*decode)(Code)) {
  uint32_t low = 0, high = infinity;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (decode(static_cast<Code>(middle)) < threshold)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

float FirstFloatAt(double threshold) {
  if (threshold > static_cast<double>(std::numeric_limits<float>::max())) return std::numeric_limits<float>::infinity();
  const float nearest = static_cast<float>(threshold);
  if (static_cast<double>(nearest) >= threshold) return nearest;
  return std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

}  // namespace

Partial EmptyTotals() {
  return Partial{0, 0, INT64_MAX, INT64_MIN, 0, 0, 0};
}

Totals TotalsOf(const Partial& partial, DType dtype) {
  Totals totals;
  totals.sum = partial.sum;
  totals.sum_of_squares = partial.sum_of_squares;
  totals.zeros = partial.zeros;
  totals.nans = partial.nans;
  totals.infs = partial.infs;
  totals.min_int = partial.low;
  totals.max_int = partial.high;
  if (partial.low <= partial.high) {  // there was a number
    totals.min = NumberOfKey(partial.low, dtype);
    totals.max = NumberOfKey(partial.high, dtype);
  }
  return totals;
}

Statistics StatisticsOf(const Note& note, const Partial& totals) {
  if (note.agreement) {
    Statistics statistics;
    statistics.numel = note.count;
    statistics.mean = note.repeat == 0 ? 0 : Agreement(totals.zeros, note.count);
    return statistics;
  }
  Layout layout;
  layout.count = note.count;
  layout.repeat = note.repeat;
  return Finish(TotalsOf(totals, note.dtype), layout, note.dtype);
}

ZeroRule ZeroRuleFor(DType dtype, const MeasureOptions& options) {
  double threshold = Threshold(dtype, options);
  if (!(threshold > 0)) threshold = 0;  // no number is below 0 or NaN: zeros are not counted
  ZeroRule rule{threshold, 0};
  switch (dtype) {
    case DType::kFloat32: rule.key = std::bit_cast<uint32_t>(FirstFloatAt(threshold)); break;
    case DType::kFloat16: rule.key = FirstCodeAt(threshold, 0x7c00, DecodeFloat16); break;
    case DType::kBFloat16: rule.key = FirstCodeAt(threshold, 0x7f80, DecodeBFloat16); break;
    case DType::kFloat8E5M2: rule.key = FirstCodeAt(threshold, 0x7c, DecodeFloat8E5M2) << 8; break;
    case DType::kFloat8E4M3: rule.key = FirstCodeAt(threshold, 0x7f, DecodeFloat8E4M3) << 7; break;
    default: break;
  }
  return rule;
}

KernelId KernelFor(DType dtype, bool trees) {
  switch (dtype) {
    case DType::kFloat64: return KernelId::kFloat64;
    case DType::kFloat32: return trees ? KernelId::kFloat32Tree : KernelId::kFloat32;
    case DType::kFloat16: return trees ? KernelId::kFloat16Tree : KernelId::kFloat16;
    case DType::kBFloat16: return trees ? KernelId::kBFloat16Tree : KernelId::kBFloat16;
    case DType::kFloat8E4M3: return trees ? KernelId::kFloat8E4M3Tree : KernelId::kFloat8E4M3;
    case DType::kFloat8E5M2: return trees ? KernelId::kFloat8E5M2Tree : KernelId::kFloat8E5M2;
    case DType::kInt64: return KernelId::kInteger64;
    case DType::kInt32: return KernelId::kInteger32;
    case DType::kInt16: return KernelId::kInteger16;
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool: return KernelId::kInteger8;
    case DType::kOther: break;
  }
  return KernelId::kAgreement;
}

}  // namespace stepwatch::kernels::cuda
