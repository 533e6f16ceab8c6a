// Integers in the order of the numbers they stand for, so that extremes of all dtypes are folded alike.
#pragma once

#include "kernels/cuda/portable.h"

namespace stepwatch::kernels::cuda {

// Its own inverse on bits: inverts the magnitude of negative numbers.
STEPWATCH_BOTH int32_t KeyOfBits(uint32_t bits) {
  const int32_t signed_bits = static_cast<int32_t>(bits);
  return signed_bits ^ ((signed_bits >> 31) & INT32_MAX);
}
STEPWATCH_BOTH int64_t KeyOfBits(uint64_t bits) {
  const int64_t signed_bits = static_cast<int64_t>(bits);
  return signed_bits ^ ((signed_bits >> 63) & INT64_MAX);
}
STEPWATCH_BOTH uint32_t BitsOfKey(int32_t key) {
  return static_cast<uint32_t>(KeyOfBits(static_cast<uint32_t>(key)));
}
STEPWATCH_DEVICE int32_t KeyOf(float x) {
  return KeyOfBits(AsBits(x));
}
STEPWATCH_DEVICE int64_t KeyOf(double x) {
  return KeyOfBits(AsBits(x));
}
// The code of a 16-bit float: sign and magnitude. Both zeros have the key 0.
STEPWATCH_DEVICE int32_t KeyOfCode(uint32_t code) {
  const int32_t magnitude = static_cast<int32_t>(code & 0x7fff);
  return (code & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace stepwatch::kernels::cuda
