// One thread's walk over a tile: its vectors, and how their bytes are found in each layout.
#pragma once

#include "kernels/cuda/accumulate.h"
#include "kernels/cuda/accumulate_pairs.h"
#include "kernels/cuda/fold.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"

namespace stepwatch::kernels::cuda {

// The part of a tensor that one block reads at once.
struct Tile {
  const char* data;  // of the tensor
  int64_t count;     // elements of the tensor
  int64_t first;     // index of its first element in the tensor
  int elements;      // 1 to a tile's full count
  Access access;
  DType dtype;
  const Shape* shape;
};

template <int kElementBytes>
inline constexpr int kTileElements = kTileBytes / kElementBytes;
template <int kElementBytes>
inline constexpr int kVectorElements = kVectorBytes / kElementBytes;

// i / size. Nearly all numbers fit 32 bits; others are divided bit by bit, because the compiler's own 64-bit division
// is a call that costs the kernel registers.
STEPWATCH_DEVICE int64_t Divide(int64_t i, int64_t size) {
  if (((i | size) >> 32) == 0) return static_cast<int64_t>(static_cast<uint32_t>(i) / static_cast<uint32_t>(size));
  uint64_t quotient = 0, rest = 0;
  STEPWATCH_NO_UNROLL for (int bit = 63; bit >= 0; --bit) {
    rest = rest << 1 | (static_cast<uint64_t>(i) >> bit & 1);
    quotient <<= 1;
    if (rest >= static_cast<uint64_t>(size)) {
      rest -= static_cast<uint64_t>(size);
      quotient |= 1;
    }
  }
  return static_cast<int64_t>(quotient);
}

// The byte offset of index `i` of a row-major walk.
STEPWATCH_DEVICE int64_t OffsetOf(const Shape& shape, int64_t i) {
  int64_t offset = 0;
  STEPWATCH_NO_UNROLL for (int dim = static_cast<int>(shape.ndim) - 1; dim > 0; --dim) {
    const int64_t quotient = Divide(i, shape.sizes[dim]);
    offset += (i - quotient * shape.sizes[dim]) * shape.strides[dim];
    i = quotient;
  }
  return offset + i * shape.strides[0];
}

// Loads one element from an aligned address, or from any (`bytewise`).
template <int kElementBytes>
STEPWATCH_DEVICE uint64_t LoadElement(const char* address, bool bytewise) {
  if constexpr (kElementBytes == 1) return Load1(address);
  if (bytewise) {
    uint64_t element = 0;
    STEPWATCH_UNROLL for (int i = 0; i < kElementBytes; ++i) element |= static_cast<uint64_t>(Load1(address + i))
                                                                        << (8 * i);
    return element;
  }
  if constexpr (kElementBytes == 8) return Load8(address);
  if constexpr (kElementBytes == 4) return Load4(address);
  return Load2(address);
}

template <int kElementBytes>
STEPWATCH_DEVICE void PutElement(uint64_t element, int i, Vector* vector) {
  if constexpr (kElementBytes == 8) {
    vector->words[2 * i] = static_cast<uint32_t>(element);
    vector->words[2 * i + 1] = static_cast<uint32_t>(element >> 32);
  } else {
    constexpr int kPerWord = 4 / kElementBytes;
    const uint32_t bits = static_cast<uint32_t>(element) << (8 * kElementBytes * (i % kPerWord));
    vector->words[i / kPerWord] |= bits;
  }
}

template <int kElementBytes>
STEPWATCH_DEVICE uint64_t GetElement(const Vector& vector, int i) {
  if constexpr (kElementBytes == 8) {
    return vector.words[2 * i] | static_cast<uint64_t>(vector.words[2 * i + 1]) << 32;
  } else {
    constexpr int kPerWord = 4 / kElementBytes;
    constexpr uint32_t kMask = kElementBytes == 4 ? UINT32_MAX : (1u << (8 * kElementBytes % 32)) - 1;
    return vector.words[i / kPerWord] >> (8 * kElementBytes * (i % kPerWord)) & kMask;
  }
}

// Loads 16 bytes from any address, out of the two aligned vectors that hold them.
STEPWATCH_DEVICE Vector LoadAcross(const char* address) {
  const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) % kVectorBytes);
  const Vector low = LoadVector(address - shift), high = LoadVector(address - shift + kVectorBytes);
  uint32_t words[8];
  STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) {
    words[i] = low.words[i];
    words[i + 4] = high.words[i];
  }
  // Shifts by words in two steps, so that no index depends on the address: that would put the array into memory.
  STEPWATCH_UNROLL for (int i = 0; i < 6; ++i) words[i] = (shift & 8) != 0 ? words[i + 2] : words[i];
  STEPWATCH_UNROLL for (int i = 0; i < 5; ++i) words[i] = (shift & 4) != 0 ? words[i + 1] : words[i];
  Vector vector;
  STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) {
    const uint64_t pair = words[i] | static_cast<uint64_t>(words[i + 1]) << 32;
    vector.words[i] = static_cast<uint32_t>(pair >> (8 * (shift % 4)));
  }
  return vector;
}

// Loads a partial vector: `count` elements, from index `first` of the tensor. The others are zero bits, which change no
// sum.
template <int kElementBytes>
STEPWATCH_DEVICE Vector LoadSome(const Tile& tile, int64_t first, int count) {
  constexpr int kCount = kVectorElements<kElementBytes>;
  int64_t offset = first * kElementBytes;
  if (tile.access == Access::kStridedVectors) offset = OffsetOf(*tile.shape, first / kCount);
  if (count == kCount && (tile.access == Access::kVectors || tile.access == Access::kStridedVectors))
    return LoadVector(tile.data + offset);
  // Neither the first nor the last vector of the tensor, beyond which reading is forbidden.
  if (tile.access == Access::kNarrow && first >= kCount && first + 2 * kCount <= tile.count)
    return LoadAcross(tile.data + offset);
  Vector vector{};
  const bool bytewise = (reinterpret_cast<uintptr_t>(tile.data) % kElementBytes) != 0;
  STEPWATCH_UNROLL for (int i = 0; i < kCount; ++i) {
    if (i < count) {
      const int64_t at =
          tile.access == Access::kStrided ? OffsetOf(*tile.shape, first + i) : offset + i * kElementBytes;
      PutElement<kElementBytes>(LoadElement<kElementBytes>(tile.data + at, bytewise), i, &vector);
    }
  }
  return vector;
}

// Fills the absent elements with the first one, which changes no extreme.
template <int kElementBytes>
STEPWATCH_DEVICE Vector FillUp(const Vector& vector, int count) {
  Vector filled{};
  STEPWATCH_UNROLL for (int i = 0; i < kVectorElements<kElementBytes>; ++i) {
    const uint64_t element = i < count ? GetElement<kElementBytes>(vector, i) : GetElement<kElementBytes>(vector, 0);
    PutElement<kElementBytes>(element, i, &filled);
  }
  return filled;
}

// Calls `visit(vector, count)` for each vector of `thread`, by rising number.
template <int kElementBytes, class Visitor>
STEPWATCH_DEVICE void ForEachVector(const Tile& tile, int thread, Visitor visit) {
  constexpr int kCount = kVectorElements<kElementBytes>;
  STEPWATCH_NO_UNROLL for (int v = 0; v < kVectorsPerThread; ++v) {
    const int first = (v * kThreads + thread) * kCount;
    if (first >= tile.elements) break;
    const int left = tile.elements - first;
    const int count = left < kCount ? left : kCount;
    visit(LoadSome<kElementBytes>(tile, tile.first + first, count), count);
  }
}

template <class Format>
STEPWATCH_DEVICE void AddVector(const Vector& vector, const ZeroRule& rule, DType dtype, typename Format::Acc* acc) {
  Format::AddSums(vector, dtype, acc);
  Format::AddExtremes(vector, dtype, acc);
  acc->zeros += Format::CountZeros(vector, rule, dtype);
}

// Counts zeros among the first `count` elements: a vector of copies of the first shows how the others were counted.
template <class Format>
STEPWATCH_DEVICE uint32_t CountZerosOfSome(const Vector& filled, int count, const ZeroRule& rule, DType dtype) {
  constexpr int kCount = kVectorElements<Format::kElementBytes>;
  const uint32_t zeros = Format::CountZeros(filled, rule, dtype);
  const uint32_t first = Format::CountZeros(FillUp<Format::kElementBytes>(filled, 1), rule, dtype) / kCount;
  return zeros - first * static_cast<uint32_t>(kCount - count);
}

template <class Format>
STEPWATCH_DEVICE void AddTile(const Tile& tile, int thread, const ZeroRule& rule, typename Format::Acc* acc) {
  constexpr int kInFlight = Format::kFewRegisters ? 2 : 4;  // with four, the 4 blocks of an SM have 64 KB in flight
  if (tile.access == Access::kVectors && tile.elements == kTileElements<Format::kElementBytes>) {
    const char* address = tile.data + tile.first * Format::kElementBytes + thread * kVectorBytes;
    STEPWATCH_NO_UNROLL for (int v = 0; v < kVectorsPerThread; v += kInFlight) {
      Vector vectors[kInFlight];
      STEPWATCH_UNROLL for (int i = 0; i < kInFlight; ++i) vectors[i] =
          LoadVector(address + (v + i) * kThreads * kVectorBytes);
      STEPWATCH_UNROLL for (int i = 0; i < kInFlight; ++i) AddVector<Format>(vectors[i], rule, tile.dtype, acc);
    }
    return;
  }
  ForEachVector<Format::kElementBytes>(tile, thread, [&](const Vector& vector, int count) {
    Format::AddSums(vector, tile.dtype, acc);
    const Vector filled = FillUp<Format::kElementBytes>(vector, count);
    Format::AddExtremes(filled, tile.dtype, acc);
    acc->zeros += CountZerosOfSome<Format>(filled, count, rule, tile.dtype);
  });
}

// Zero bits are finite, so the padded end needs no special case.
template <class Format>
STEPWATCH_DEVICE NonFinite CountNonFinite(const Tile& tile, int thread) {
  NonFinite found;
  ForEachVector<Format::kElementBytes>(tile, thread, [&](const Vector& vector, int) {
    found.nans += Format::CountNans(vector);
    found.infs += Format::CountInfs(vector);
  });
  return found;
}

}  // namespace stepwatch::kernels::cuda
