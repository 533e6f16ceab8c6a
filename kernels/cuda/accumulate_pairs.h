// Formats for 16-bit floats, and for 8-bit floats widened to them: two codes of 16 bits in a word.
#pragma once

#include "kernels/cuda/accumulate.h"

namespace stepwatch::kernels::cuda {

// Counts those of the 2 * kWords codes whose magnitude is below `limit`, at most 0x8000. The sum of a magnitude and
// 0x8000 - limit, which cannot carry into the neighbour, has its top bit set exactly if the magnitude is not below.
template <int kWords>
STEPWATCH_DEVICE uint32_t CountCodesBelow(const uint32_t* words, uint32_t limit) {
  static_assert(kWords <= 16);  // each word's two top bits move down once for every word after it
  const uint32_t offset = (0x8000 - limit) * 0x10001u;
  uint32_t not_below = 0;
  STEPWATCH_UNROLL for (int i = 0; i < kWords; ++i) not_below =
      (not_below >> 1) | (((words[i] & 0x7fff7fff) + offset) & 0x80008000);
  return 2 * kWords - CountBits(not_below);
}

struct Float16Codes {
  static constexpr int kElementBytes = 2;
  static constexpr int kWords = 4;
  static constexpr bool kHiddenNan = false;
  static constexpr uint32_t kInfinity = 0x7c00, kNanAbove = 0x7c00;
  static constexpr double kScale = 1;
  using Pairs = HalfPairs;
  static STEPWATCH_DEVICE void Widen(const Vector& vector, uint32_t* words) {
    STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) words[i] = vector.words[i];
  }
  static STEPWATCH_DEVICE float Low(uint32_t word) { return HalfToFloat(word & 0xffff); }
  static STEPWATCH_DEVICE float High(uint32_t word) { return HalfToFloat(word >> 16); }
  static STEPWATCH_DEVICE bool InTreeRange(const Partial&) { return true; }  // from 2^-48 to 2^32
  // The words of a vector hold elements 2 * i and 2 * i + 1.
  static STEPWATCH_DEVICE int LowLane(int) { return 0; }
  static STEPWATCH_DEVICE int HighLane(int) { return 1; }
};

struct BFloat16Codes : Float16Codes {
  static constexpr uint32_t kInfinity = 0x7f80, kNanAbove = 0x7f80;
  using Pairs = BrainPairs;
  static STEPWATCH_DEVICE float Low(uint32_t word) { return AsFloat(word << 16); }
  static STEPWATCH_DEVICE float High(uint32_t word) { return AsFloat(word & 0xffff0000); }
  static STEPWATCH_DEVICE bool InTreeRange(const Partial& tile) {
    const int64_t low = tile.low < 0 ? -tile.low : tile.low, high = tile.high < 0 ? -tile.high : tile.high;
    return SquaresFitFloat(AsFloat(static_cast<uint32_t>(low > high ? low : high) << 16));
  }
};

// Word 2 * i holds bytes 0 and 2 of the vector's word i, word 2 * i + 1 its bytes 1 and 3: one lane each.
struct Float8E5M2Codes {
  static constexpr int kElementBytes = 1;
  static constexpr int kWords = 8;
  static constexpr bool kHiddenNan = false;
  static constexpr uint32_t kInfinity = 0x7c00, kNanAbove = 0x7c00;
  static constexpr double kScale = 1;
  using Pairs = HalfPairs;
  static STEPWATCH_DEVICE void Widen(const Vector& vector, uint32_t* words) {
    STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) {
      words[2 * i] = (vector.words[i] << 8) & 0xff00ff00;
      words[2 * i + 1] = vector.words[i] & 0xff00ff00;
    }
  }
  static STEPWATCH_DEVICE float Low(uint32_t word) { return HalfToFloat(word & 0xffff); }
  static STEPWATCH_DEVICE float High(uint32_t word) { return HalfToFloat(word >> 16); }
  static STEPWATCH_DEVICE bool InTreeRange(const Partial&) { return true; }
  static STEPWATCH_DEVICE int LowLane(int word) { return word % 2; }
  static STEPWATCH_DEVICE int HighLane(int word) { return word % 2; }
};

// As a half, the code stands for x / 256, subnormals included. Its NaN becomes a number above all others, which is
// found by its key.
struct Float8E4M3Codes : Float8E5M2Codes {
  static constexpr bool kHiddenNan = true;
  static constexpr uint32_t kInfinity = 0xffff;  // the format has no infinity
  static constexpr uint32_t kNanAbove = (0x7f << 7) - 1;
  static constexpr double kScale = 256;
  static STEPWATCH_DEVICE void Widen(const Vector& vector, uint32_t* words) {
    STEPWATCH_UNROLL for (int i = 0; i < 4; ++i) {
      const uint32_t w = vector.words[i];
      words[2 * i] = ((w << 8) & 0x80008000) | ((w << 7) & 0x3f803f80);
      words[2 * i + 1] = (w & 0x80008000) | ((w >> 1) & 0x3f803f80);
    }
  }
};

struct PairExtremes {
  uint32_t low;
  uint32_t high;
};

template <class Codes, bool kTree>
struct PairFormat : Codes {
  static constexpr bool kFewRegisters = kTree || Codes::kElementBytes == 1;
  static constexpr bool kCanBeNonFinite = true;
  using Extremes = PairExtremes;
  struct Acc : Accumulator<Extremes> {
    STEPWATCH_DEVICE Acc() {
      constexpr uint32_t kInfinity = Codes::kHiddenNan ? 0x7c00 : Codes::kInfinity;
      this->extremes = {kInfinity * 0x10001u, (kInfinity | 0x8000) * 0x10001u};
    }
  };

  static STEPWATCH_DEVICE void AddSums(const Vector& vector, DType, Acc* acc) {
    uint32_t words[Codes::kWords];
    Codes::Widen(vector, words);
    if constexpr (kTree) {
      AddTree(SumByTree<Codes::kWords>(0, [&](int i) { return PairSums(Codes::Low(words[i]), Codes::High(words[i])); }),
              acc);
    } else {
      STEPWATCH_UNROLL for (int i = 0; i < Codes::kWords; ++i) {
        AddToLane<true>(static_cast<double>(Codes::Low(words[i])), Codes::LowLane(i), acc);
        AddToLane<true>(static_cast<double>(Codes::High(words[i])), Codes::HighLane(i), acc);
      }
    }
  }
  static STEPWATCH_DEVICE void AddExtremes(const Vector& vector, DType, Acc* acc) {
    uint32_t words[Codes::kWords];
    Codes::Widen(vector, words);
    STEPWATCH_UNROLL for (int i = 0; i < Codes::kWords; ++i) {
      acc->extremes.low = Codes::Pairs::Smaller(acc->extremes.low, words[i]);
      acc->extremes.high = Codes::Pairs::Larger(acc->extremes.high, words[i]);
    }
  }
  static STEPWATCH_DEVICE uint32_t CountZeros(const Vector& vector, const ZeroRule& rule, DType) {
    uint32_t words[Codes::kWords];
    Codes::Widen(vector, words);
    return CountCodesBelow<Codes::kWords>(words, rule.key);
  }
  static STEPWATCH_DEVICE uint32_t CountNans(const Vector& vector) {
    uint32_t words[Codes::kWords];
    Codes::Widen(vector, words);
    return 2 * Codes::kWords - CountCodesBelow<Codes::kWords>(words, Codes::kNanAbove + 1);
  }
  static STEPWATCH_DEVICE uint32_t CountInfs(const Vector& vector) {
    if constexpr (Codes::kHiddenNan) return 0;
    uint32_t words[Codes::kWords];
    Codes::Widen(vector, words);
    return CountCodesBelow<Codes::kWords>(words, Codes::kInfinity + 1) -
           CountCodesBelow<Codes::kWords>(words, Codes::kInfinity);
  }
  static STEPWATCH_DEVICE ThreadTotals<int32_t> Fold(const Acc& acc) {
    const int32_t low0 = KeyOfCode(acc.extremes.low), low1 = KeyOfCode(acc.extremes.low >> 16);
    const int32_t high0 = KeyOfCode(acc.extremes.high), high1 = KeyOfCode(acc.extremes.high >> 16);
    ThreadTotals<int32_t> totals = FoldLanes<int32_t>(acc, low0 < low1 ? low0 : low1, high0 > high1 ? high0 : high1);
    totals.sum *= Codes::kScale;  // powers of two: exact
    totals.sum_of_squares *= Codes::kScale * Codes::kScale;
    return totals;
  }
};

}  // namespace stepwatch::kernels::cuda
