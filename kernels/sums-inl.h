// The sums of elements and of their squares. Included once for each instruction set, by loops.cc.
#if defined(STEPWATCH_KERNELS_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEPWATCH_KERNELS_SUMS_INL_H_
#undef STEPWATCH_KERNELS_SUMS_INL_H_
#else
#define STEPWATCH_KERNELS_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>
#include <type_traits>

#include "kernels/decode-inl.h"
#include "kernels/loops.h"
#include "kernels/totals.h"

HWY_BEFORE_NAMESPACE();
namespace stepwatch::kernels::HWY_NAMESPACE {

// The sixteen lanes of the two sums. Between the loops they lie in memory, in the order of the format's vectors: g++
// keeps a vector that is a member in memory during the loops as well.
template <class Format>
class Sums {
 public:
  explicit Sums(const ChunkState& state) {
    for (int i = 0; i < kLanes; ++i) {
      const size_t lane = CanonicalLane(Format::kEvenOdd, i);
      sum_[i] = state.sum[lane];
      squares_[i] = state.sum_of_squares[lane];
    }
  }

  void Save(ChunkState* state) const {
    for (int i = 0; i < kLanes; ++i) {
      const size_t lane = CanonicalLane(Format::kEvenOdd, i);
      state->sum[lane] = sum_[i];
      state->sum_of_squares[lane] = squares_[i];
    }
  }

  struct Registers {
    DoubleVector sum[kVectors], squares[kVectors];
  };

  HWY_INLINE void Load(Registers* registers) const {
    HWY_UNROLL(16)
    for (int k = 0; k < kVectors; ++k) {
      registers->sum[k] = hn::Load(Doubles(), sum_ + k * kPerVector);
      registers->squares[k] = hn::Load(Doubles(), squares_ + k * kPerVector);
    }
  }

  // False if any element so far was NaN or infinite, or, of fp64 only, large.
  HWY_INLINE bool Store(const Registers& registers) {
    auto all = registers.squares[0];
    HWY_UNROLL(16)
    for (int k = 0; k < kVectors; ++k) {
      hn::Store(registers.sum[k], Doubles(), sum_ + k * kPerVector);
      hn::Store(registers.squares[k], Doubles(), squares_ + k * kPerVector);
      if (k > 0) all = hn::Add(all, registers.squares[k]);
    }
    return hn::AllTrue(Doubles(), hn::Lt(all, hn::Set(Doubles(), std::numeric_limits<double>::infinity())));
  }

  // `data`: sixteen elements, or the output of Format::Write for them.
  template <class T>
  static HWY_INLINE void AddSixteen(const T* HWY_RESTRICT data, Registers* registers) {
    using Source = std::conditional_t<Format::kThroughSingles, Float32, Format>;
    HWY_UNROLL(16)
    for (int k = 0; k < kVectors; ++k) {
      const auto x = Source::Widen(data + k * kPerVector);
      registers->sum[k] = hn::Add(registers->sum[k], x);
      if constexpr (Format::kExactSquares)
        registers->squares[k] = hn::MulAdd(x, x, registers->squares[k]);
      else
        registers->squares[k] = hn::Add(registers->squares[k], hn::Mul(x, x));
    }
  }

 private:
  HWY_ALIGN double sum_[kLanes];
  HWY_ALIGN double squares_[kLanes];
};

}  // namespace stepwatch::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
