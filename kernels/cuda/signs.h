// Sign agreement of two tensors: one thread's sum of products of signs over a tile of both. Integers, so no order
// matters. The sign of a NaN is 0.
#pragma once

#include "kernels/cuda/tile.h"

namespace stepwatch::kernels::cuda {

// Tiles are cut as if elements had two bytes, whatever the dtypes.
inline constexpr int kSignBytes = 2;

// Codes with a magnitude above this are NaN; integers have no such code.
STEPWATCH_DEVICE uint64_t NanAbove(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return 0x7ff0000000000000;
    case DType::kFloat32: return 0x7f800000;
    case DType::kFloat16: return 0x7c00;
    case DType::kBFloat16: return 0x7f80;
    case DType::kFloat8E4M3: return 0x7e;
    case DType::kFloat8E5M2: return 0x7c;
    default: return UINT64_MAX;
  }
}

STEPWATCH_DEVICE int BytesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64: return 8;
    case DType::kFloat32:
    case DType::kInt32: return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16: return 2;
    default: return 1;
  }
}

// The sign of a number of `bits` bits: a float or an integer, both with the sign on top, unless unsigned.
STEPWATCH_DEVICE int SignOf(uint64_t code, int bits, DType dtype) {
  if (dtype == DType::kUInt8 || dtype == DType::kBool) return code != 0 ? 1 : 0;
  const bool negative = (code >> (bits - 1) & 1) != 0;
  const uint64_t magnitude = code & ~(uint64_t{1} << (bits - 1));
  const bool integer = dtype >= DType::kInt64;
  if (integer ? code == 0 : magnitude == 0 || magnitude > NanAbove(dtype)) return 0;
  return negative ? -1 : 1;
}

STEPWATCH_DEVICE int SignAt(const Tile& tile, int64_t i) {
  const int bytes = BytesOf(tile.dtype);
  int64_t offset = i * bytes;
  if (tile.access == Access::kStrided) offset = OffsetOf(*tile.shape, i);
  const char* address = tile.data + offset;
  const bool bytewise = reinterpret_cast<uintptr_t>(address) % static_cast<unsigned>(bytes) != 0;
  uint64_t code = 0;
  switch (bytes) {
    case 8: code = LoadElement<8>(address, bytewise); break;
    case 4: code = LoadElement<4>(address, bytewise); break;
    case 2: code = LoadElement<2>(address, bytewise); break;
    default: code = LoadElement<1>(address, bytewise); break;
  }
  return SignOf(code, 8 * bytes, tile.dtype);
}

// Product of the signs of two floats of kBits bits, the low ones of `a` and `b`.
template <int kBits>
STEPWATCH_DEVICE int MultiplySigns(uint32_t a, uint32_t b, uint32_t nan_above) {
  constexpr uint32_t kMagnitude = (1u << (kBits - 1)) - 1;
  const uint32_t x = a & kMagnitude, y = b & kMagnitude;
  if (x == 0 || y == 0 || x > nan_above || y > nan_above) return 0;
  return ((a ^ b) >> (kBits - 1) & 1) != 0 ? -1 : 1;
}

STEPWATCH_DEVICE int MultiplySigns(const Vector& a, const Vector& b, bool halves, uint32_t nan_above) {
  int sum = 0;
  STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) {
    if (halves)
      sum += MultiplySigns<16>(a.words[i], b.words[i], nan_above) +
             MultiplySigns<16>(a.words[i] >> 16, b.words[i] >> 16, nan_above);
    else
      sum += MultiplySigns<32>(a.words[i], b.words[i], nan_above);
  }
  return sum;
}

// A pair that is read in vectors: both side by side and aligned, of one dtype of training.
STEPWATCH_DEVICE bool InVectors(const Tile& a, const Tile& b) {
  return a.access == Access::kVectors && b.access == Access::kVectors && a.dtype == b.dtype &&
         (a.dtype == DType::kFloat32 || a.dtype == DType::kFloat16 || a.dtype == DType::kBFloat16);
}

// The share of `thread` in a tile of both tensors.
STEPWATCH_DEVICE int MultiplySigns(const Tile& a, const Tile& b, int thread) {
  int sum = 0, done = 0;
  if (InVectors(a, b)) {
    const bool halves = a.dtype != DType::kFloat32;
    const int per_vector = halves ? 8 : 4;
    const uint32_t nan_above = static_cast<uint32_t>(NanAbove(a.dtype));
    const int64_t begin = a.first * (kVectorBytes / per_vector);
    const int vectors = a.elements / per_vector;
    STEPWATCH_NO_UNROLL for (int v = thread; v < vectors; v += kThreads) {
      const int64_t offset = begin + static_cast<int64_t>(v) * kVectorBytes;
      sum += MultiplySigns(LoadVector(a.data + offset), LoadVector(b.data + offset), halves, nan_above);
    }
    done = vectors * per_vector;
  }
  STEPWATCH_NO_UNROLL for (int i = done + thread; i < a.elements; i += kThreads) sum +=
      SignAt(a, a.first + i) * SignAt(b, a.first + i);
  return sum;
}

}  // namespace stepwatch::kernels::cuda
