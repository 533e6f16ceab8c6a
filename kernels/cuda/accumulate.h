// Per-thread accumulation of vectors: a Format for each kernel.
//
// A Format has kElementBytes; kFewRegisters, if its arithmetic leaves room for two loads in flight instead of four;
// kCanBeNonFinite; kHiddenNan, if its NaN does not make the sums NaN; Extremes, the running minimum and maximum; and
//   AddSums(vector, acc)                          elements into the two lanes of the thread, by rising index
//   AddExtremes(vector, acc)
//   CountZeros(vector, rule, dtype) -> uint32_t   elements of a whole vector with |x| < threshold
//   CountNans, CountInfs(vector)                  likewise
//   Fold(acc) -> ThreadTotals                     its two lanes as one
#pragma once

#include "kernels/cuda/keys.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"

namespace stepwatch::kernels::cuda {

inline constexpr int kThreadLanes = 2;

template <class Extremes>
struct Accumulator {
  double sum[kThreadLanes] = {0, 0};
  double sum_of_squares[kThreadLanes] = {0, 0};
  Extremes extremes;
  uint32_t zeros = 0;
};

// A thread's share of a tile; Key is int32_t where all keys of the dtype fit.
template <class KeyType>
struct ThreadTotals {
  using Key = KeyType;
  double sum;
  double sum_of_squares;
  Key low;
  Key high;
  uint32_t zeros;
};

template <class Number>
struct NumberExtremes {
  Number low = static_cast<Number>(__builtin_inf());
  Number high = -static_cast<Number>(__builtin_inf());
};

template <class Integer>
struct IntegerExtremes {
  Integer low = static_cast<Integer>(sizeof(Integer) == 8 ? INT64_MAX : INT32_MAX);
  Integer high = static_cast<Integer>(sizeof(Integer) == 8 ? INT64_MIN : INT32_MIN);
};

// kExactSquare: x * x has no rounding error, and the fused form gives the bits of the separate one.
template <bool kExactSquare>
STEPWATCH_DEVICE double AddSquare(double x, double sum) {
  return kExactSquare ? MultiplyAdd(x, x, sum) : sum + x * x;
}

template <bool kExactSquare, class Acc>
STEPWATCH_DEVICE void AddToLane(double x, int lane, Acc* acc) {
  acc->sum[lane] += x;
  acc->sum_of_squares[lane] = AddSquare<kExactSquare>(x, acc->sum_of_squares[lane]);
}

template <class Key, class Acc>
STEPWATCH_DEVICE ThreadTotals<Key> FoldLanes(const Acc& acc, Key low, Key high) {
  return {acc.sum[0] + acc.sum[1], acc.sum_of_squares[0] + acc.sum_of_squares[1], low, high, acc.zeros};
}

// The sum of some numbers, and of their squares, as balanced trees of single-precision additions.
struct TreeSums {
  float sum;
  float sum_of_squares;
};

// `pair(i)` gives the sums of numbers 2 * i and 2 * i + 1. Depth first, which keeps few numbers at a time.
template <int kPairs, class Pair>
STEPWATCH_DEVICE TreeSums SumByTree(int first, Pair pair) {
  if constexpr (kPairs == 1) {
    return pair(first);
  } else {
    const TreeSums low = SumByTree<kPairs / 2>(first, pair), high = SumByTree<kPairs / 2>(first + kPairs / 2, pair);
    return {low.sum + high.sum, low.sum_of_squares + high.sum_of_squares};
  }
}

STEPWATCH_DEVICE TreeSums PairSums(float x, float y) {
  return {x + y, x * x + y * y};
}

template <class Acc>
STEPWATCH_DEVICE void AddTree(const TreeSums& tree, Acc* acc) {
  acc->sum[0] += static_cast<double>(tree.sum);
  acc->sum_of_squares[0] += static_cast<double>(tree.sum_of_squares);
}

struct Float64Format {
  static constexpr bool kFewRegisters = false;
  static constexpr int kElementBytes = 8;
  static constexpr bool kHiddenNan = false;
  static constexpr bool kCanBeNonFinite = true;
  using Extremes = NumberExtremes<double>;
  using Acc = Accumulator<Extremes>;

  static STEPWATCH_DEVICE double At(const Vector& vector, int i) {
    return AsDouble(vector.words[2 * i] | static_cast<uint64_t>(vector.words[2 * i + 1]) << 32);
  }
  static STEPWATCH_DEVICE void AddSums(const Vector& vector, DType, Acc* acc) {
    STEPWATCH_UNROLL for (int i = 0; i < 2; ++i) AddToLane<false>(At(vector, i), i, acc);
  }
  static STEPWATCH_DEVICE void AddExtremes(const Vector& vector, DType, Acc* acc) {
    STEPWATCH_UNROLL for (int i = 0; i < 2; ++i) {
      acc->extremes.low = Smaller(acc->extremes.low, At(vector, i));
      acc->extremes.high = Larger(acc->extremes.high, At(vector, i));
    }
  }
  static STEPWATCH_DEVICE uint32_t CountZeros(const Vector& vector, const ZeroRule& rule, DType) {
    uint32_t count = 0;
    STEPWATCH_UNROLL for (int i = 0; i < 2; ++i) count += Magnitude(At(vector, i)) < rule.number ? 1 : 0;
    return count;
  }
  static STEPWATCH_DEVICE uint32_t CountNans(const Vector& vector) {
    uint32_t count = 0;
    STEPWATCH_UNROLL for (int i = 0; i < 2; ++i) count += At(vector, i) != At(vector, i) ? 1 : 0;
    return count;
  }
  static STEPWATCH_DEVICE uint32_t CountInfs(const Vector& vector) {
    uint32_t count = 0;
    STEPWATCH_UNROLL for (int i = 0; i < 2; ++i) count += Magnitude(At(vector, i)) == __builtin_inf() ? 1 : 0;
    return count;
  }
  static STEPWATCH_DEVICE ThreadTotals<int64_t> Fold(const Acc& acc) {
    return FoldLanes<int64_t>(acc, KeyOf(acc.extremes.low), KeyOf(acc.extremes.high));
  }
};

// Single precision keeps the squares of a tile to its usual accuracy if the largest magnitude lies here: below, squares
// that matter underflow; above, they overflow. In the tile of a smaller number they do not matter.
STEPWATCH_DEVICE bool SquaresFitFloat(float largest) {
  return largest == 0 || (largest >= 0x1p-50f && largest <= 0x1p60f);
}

template <bool kTree>
struct Float32Format {
  static constexpr bool kFewRegisters = kTree;
  static constexpr int kElementBytes = 4;
  static constexpr bool kHiddenNan = false;
  static constexpr bool kCanBeNonFinite = true;
  using Extremes = NumberExtremes<float>;
  using Acc = Accumulator<Extremes>;

  static STEPWATCH_DEVICE void AddSums(const Vector& vector, DType, Acc* acc) {
    if constexpr (kTree) {
      AddTree(SumByTree<2>(
                  0, [&](int i) { return PairSums(AsFloat(vector.words[2 * i]), AsFloat(vector.words[2 * i + 1])); }),
              acc);
    } else {
      STEPWATCH_UNROLL for (int i = 0; i < 4; ++i)
          AddToLane<true>(static_cast<double>(AsFloat(vector.words[i])), i % kThreadLanes, acc);
    }
  }
  static STEPWATCH_DEVICE void AddExtremes(const Vector& vector, DType, Acc* acc) {
    STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) {
      acc->extremes.low = Smaller(acc->extremes.low, AsFloat(vector.words[i]));
      acc->extremes.high = Larger(acc->extremes.high, AsFloat(vector.words[i]));
    }
  }
  static STEPWATCH_DEVICE uint32_t CountZeros(const Vector& vector, const ZeroRule& rule, DType) {
    uint32_t count = 0;
    STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) count +=
        Magnitude(AsFloat(vector.words[i])) < AsFloat(rule.key) ? 1 : 0;
    return count;
  }
  static STEPWATCH_DEVICE uint32_t CountNans(const Vector& vector) {
    uint32_t count = 0;
    STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) count += (vector.words[i] & 0x7fffffff) > 0x7f800000 ? 1 : 0;
    return count;
  }
  static STEPWATCH_DEVICE uint32_t CountInfs(const Vector& vector) {
    uint32_t count = 0;
    STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) count += (vector.words[i] & 0x7fffffff) == 0x7f800000 ? 1 : 0;
    return count;
  }
  static STEPWATCH_DEVICE ThreadTotals<int32_t> Fold(const Acc& acc) {
    return FoldLanes<int32_t>(acc, KeyOf(acc.extremes.low), KeyOf(acc.extremes.high));
  }
  static STEPWATCH_DEVICE bool InTreeRange(const Partial& tile) {
    const float low = Magnitude(AsFloat(BitsOfKey(static_cast<int32_t>(tile.low))));
    const float high = Magnitude(AsFloat(BitsOfKey(static_cast<int32_t>(tile.high))));
    return SquaresFitFloat(Larger(low, high));
  }
};

// Integers and bool.

template <int kBytes>
struct IntegerFormat {
  static constexpr bool kFewRegisters = kBytes == 1;
  static constexpr int kElementBytes = kBytes;
  static constexpr int kCount = kVectorBytes / kBytes;
  static constexpr bool kHiddenNan = false;
  static constexpr bool kCanBeNonFinite = false;
  using Key = decltype([] {
    if constexpr (kBytes == 8)
      return int64_t{};
    else
      return int32_t{};
  }());
  using Extremes = IntegerExtremes<Key>;
  using Acc = Accumulator<Extremes>;

  static STEPWATCH_DEVICE Key At(const Vector& vector, int i, DType dtype) {
    if constexpr (kBytes == 8) {
      return static_cast<int64_t>(vector.words[2 * i] | static_cast<uint64_t>(vector.words[2 * i + 1]) << 32);
    } else if constexpr (kBytes == 4) {
      return static_cast<int32_t>(vector.words[i]);
    } else if constexpr (kBytes == 2) {
      return static_cast<int16_t>(vector.words[i / 2] >> (16 * (i % 2)));
    } else {
      const uint32_t byte = vector.words[i / 4] >> (8 * (i % 4)) & 0xff;
      if (dtype == DType::kBool) return byte != 0 ? 1 : 0;
      return dtype == DType::kInt8 ? static_cast<int8_t>(byte) : static_cast<int32_t>(byte);
    }
  }
  static STEPWATCH_DEVICE void AddSums(const Vector& vector, DType dtype, Acc* acc) {
    STEPWATCH_UNROLL for (int i = 0; i < kCount; ++i)
        AddToLane<(kBytes < 4)>(static_cast<double>(At(vector, i, dtype)), i % kThreadLanes, acc);
  }
  static STEPWATCH_DEVICE void AddExtremes(const Vector& vector, DType dtype, Acc* acc) {
    STEPWATCH_UNROLL for (int i = 0; i < kCount; ++i) {
      const Key x = At(vector, i, dtype);
      acc->extremes.low = x < acc->extremes.low ? x : acc->extremes.low;
      acc->extremes.high = x > acc->extremes.high ? x : acc->extremes.high;
    }
  }
  static STEPWATCH_DEVICE uint32_t CountZeros(const Vector& vector, const ZeroRule& rule, DType dtype) {
    uint32_t count = 0;
    STEPWATCH_UNROLL for (int i = 0; i < kCount; ++i) count +=
        Magnitude(static_cast<double>(At(vector, i, dtype))) < rule.number ? 1 : 0;
    return count;
  }
  static STEPWATCH_DEVICE uint32_t CountNans(const Vector&) { return 0; }
  static STEPWATCH_DEVICE uint32_t CountInfs(const Vector&) { return 0; }
  static STEPWATCH_DEVICE ThreadTotals<Key> Fold(const Acc& acc) {
    return FoldLanes<Key>(acc, acc.extremes.low, acc.extremes.high);
  }
};

}  // namespace stepwatch::kernels::cuda
