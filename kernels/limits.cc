#include "kernels/limits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/formats.h"
#include "kernels/totals.h"

namespace stepwatch::kernels {
namespace {

// The bits of the smallest value of a format that is not below `value`, which is positive. The bits of positive values
// rise with the values, infinity (or, where there is none, NaN) last.
template <class Code, auto kDecode>
Code CeilBits(double value, Code last) {
  Code low = 0, high = last;
  while (low < high) {
    const Code middle = static_cast<Code>(low + (high - low) / 2);
    if (kDecode(middle) >= value)
      high = middle;
    else
      low = static_cast<Code>(middle + 1);
  }
  return low;
}

float CeilFloat(double value) {
  const float rounded = static_cast<float>(value);
  return static_cast<double>(rounded) >= value ? rounded
                                               : std::nextafter(rounded, std::numeric_limits<float>::infinity());
}

uint16_t CeilBFloat16(double value) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(CeilFloat(value)) + 0xffffu) >> 16);
}

// Beyond 2^62, all values that 32 bits hold are inside.
int64_t LargestBelow(double threshold) {
  return static_cast<int64_t>(std::min(std::ceil(threshold), 0x1p62)) - 1;
}

}  // namespace

Limits LimitsFor(DType dtype, const MeasureOptions& options) {
  Limits limits;
  const double threshold = Threshold(dtype, options);
  if (!(threshold > 0)) return limits;
  limits.threshold = threshold;
  switch (dtype) {
    case DType::kFloat32: limits.float32 = CeilFloat(threshold); break;
    case DType::kFloat16: limits.bits16 = CeilBits<uint16_t, DecodeFloat16>(threshold, 0x7c00); break;
    case DType::kBFloat16: limits.bits16 = CeilBFloat16(threshold); break;
    case DType::kFloat8E4M3: limits.bits8 = CeilBits<uint8_t, DecodeFloat8E4M3>(threshold, 0x7f); break;
    case DType::kFloat8E5M2: limits.bits8 = CeilBits<uint8_t, DecodeFloat8E5M2>(threshold, 0x7c); break;
    default:
      limits.zero_to = LargestBelow(threshold);
      limits.zero_from = -limits.zero_to;
      break;
  }
  return limits;
}

}  // namespace stepwatch::kernels
