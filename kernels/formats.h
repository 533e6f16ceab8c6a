// The number formats of tensors, each as the number it stands for: a double, exactly, or an int64_t for integers and
// bool.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "stepwatch/tensor_view.h"

namespace stepwatch::kernels {

constexpr double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// A small binary float of `kExponentBits` and `kMantissaBits` under a sign bit, with infinities and NaN as in IEEE 754.
template <int kExponentBits, int kMantissaBits>
constexpr double DecodeSmallFloat(unsigned code) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr int kExponentTop = (1 << kExponentBits) - 1;
  const int mantissa = static_cast<int>(code) & ((1 << kMantissaBits) - 1);
  const int exponent = static_cast<int>(code >> kMantissaBits) & kExponentTop;
  const double sign = (code >> (kExponentBits + kMantissaBits) & 1) != 0 ? -1.0 : 1.0;
  if (exponent == kExponentTop)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * mantissa * PowerOfTwo(1 - kBias - kMantissaBits);
  return sign * (mantissa + (1 << kMantissaBits)) * PowerOfTwo(exponent - kBias - kMantissaBits);
}

constexpr double DecodeFloat16(uint16_t code) {
  return DecodeSmallFloat<5, 10>(code);
}
constexpr double DecodeFloat8E5M2(uint8_t code) {
  return DecodeSmallFloat<5, 2>(code);
}

// The "fn" form gives the top exponent to ordinary numbers, except for one NaN of each sign.
constexpr double DecodeFloat8E4M3(uint8_t code) {
  const int magnitude = code & 0x7f;
  if (magnitude == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = magnitude >> 3;
  const int mantissa = magnitude & 7;
  const double value = exponent == 0 ? mantissa * PowerOfTwo(-9) : (8 + mantissa) * PowerOfTwo(exponent - 10);
  return code >= 0x80 ? -value : value;
}

inline double DecodeBFloat16(uint16_t code) {
  return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(code) << 16));
}

template <class T>
constexpr double Same(T raw) {
  return static_cast<double>(raw);
}
constexpr int64_t Integer(int64_t raw) {
  return raw;
}
constexpr int64_t NonZero(uint8_t raw) {
  return raw != 0 ? 1 : 0;
}

// Storage and value of one dtype.
template <class RawType, auto kDecode>
struct Format {
  using Raw = RawType;
  static auto Load(const std::byte* address) {
    Raw raw;
    std::memcpy(&raw, address, sizeof raw);  // elements need not be aligned
    return kDecode(raw);
  }
};

// Calls `visitor` with the Format of `dtype`; without arguments, returning false, for kOther.
template <class Visitor>
bool VisitFormat(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kFloat64: visitor(Format<double, Same<double>>{}); return true;
    case DType::kFloat32: visitor(Format<float, Same<float>>{}); return true;
    case DType::kFloat16: visitor(Format<uint16_t, DecodeFloat16>{}); return true;
    case DType::kBFloat16: visitor(Format<uint16_t, DecodeBFloat16>{}); return true;
    case DType::kFloat8E4M3: visitor(Format<uint8_t, DecodeFloat8E4M3>{}); return true;
    case DType::kFloat8E5M2: visitor(Format<uint8_t, DecodeFloat8E5M2>{}); return true;
    case DType::kInt64: visitor(Format<int64_t, Integer>{}); return true;
    case DType::kInt32: visitor(Format<int32_t, Integer>{}); return true;
    case DType::kInt16: visitor(Format<int16_t, Integer>{}); return true;
    case DType::kInt8: visitor(Format<int8_t, Integer>{}); return true;
    case DType::kUInt8: visitor(Format<uint8_t, Integer>{}); return true;
    case DType::kBool: visitor(Format<uint8_t, NonZero>{}); return true;
    case DType::kOther: break;
  }
  return false;
}

}  // namespace stepwatch::kernels
