#include "kernels/loops.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loops.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, so that they are compiled for each of its targets.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/decode-inl.h"
#include "kernels/extremes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stepwatch::kernels::HWY_NAMESPACE {

// Ahead of the loads. Measured: half of it loses some bandwidth of bf16, twice of it some of fp32.
constexpr int kPrefetchBytes = 2048;
constexpr int kLineBytes = 64;

// The sixteen lanes of the two sums, in registers.
template <class Format>
class Sums {
 public:
  explicit Sums(const ChunkState& state) {
    HWY_ALIGN double sum[kLanes], squares[kLanes];
    for (int k = 0; k < kVectors; ++k)
      for (int j = 0; j < kPerVector; ++j) {
        const auto lane = static_cast<size_t>(CanonicalLane(Format::kPaired, k, j));
        sum[k * kPerVector + j] = state.sum[lane];
        squares[k * kPerVector + j] = state.sum_of_squares[lane];
      }
    for (int k = 0; k < kVectors; ++k) {
      sum_[k] = hn::Load(Doubles(), sum + k * kPerVector);
      squares_[k] = hn::Load(Doubles(), squares + k * kPerVector);
    }
  }

  HWY_INLINE void Add(const typename Format::Raw* HWY_RESTRICT data) {
    DoubleVector x[kVectors];
    Format::Load(data, x);
    HWY_UNROLL(16)
    for (int k = 0; k < kVectors; ++k) {
      sum_[k] = hn::Add(sum_[k], x[k]);
      if constexpr (Format::kExactSquares)
        squares_[k] = hn::MulAdd(x[k], x[k], squares_[k]);
      else
        squares_[k] = hn::Add(squares_[k], hn::Mul(x[k], x[k]));
    }
  }

  // False if any element so far was NaN or infinite, or, of fp64 only, large.
  HWY_INLINE bool AllFinite() const {
    auto all = squares_[0];
    for (int k = 1; k < kVectors; ++k) all = hn::Add(all, squares_[k]);
    return hn::AllTrue(Doubles(), hn::Lt(all, hn::Set(Doubles(), std::numeric_limits<double>::infinity())));
  }

  void Save(ChunkState* state) const {
    HWY_ALIGN double sum[kPerVector], squares[kPerVector];
    for (int k = 0; k < kVectors; ++k) {
      hn::Store(sum_[k], Doubles(), sum);
      hn::Store(squares_[k], Doubles(), squares);
      for (int j = 0; j < kPerVector; ++j) {
        const auto lane = static_cast<size_t>(CanonicalLane(Format::kPaired, k, j));
        state->sum[lane] = sum[j];
        state->sum_of_squares[lane] = squares[j];
      }
    }
  }

 private:
  DoubleVector sum_[kVectors];
  DoubleVector squares_[kVectors];
};

// `count` is a multiple of kStep, at most a block.
template <class Format>
void CountNonFinite(const typename Format::Raw* HWY_RESTRICT data, int64_t count, Totals* totals) {
  using Bits = BitsOf<Format>;
  using Signed = typename Bits::Signed;
  const StepTag<Signed> tag;
  const auto magnitude_bits = hn::Set(tag, static_cast<Signed>(Bits::kMagnitude));
  const auto number_max = hn::Set(tag, static_cast<Signed>(Bits::kNumberMax));
  Counter<Signed> nans, infs;
  for (int64_t i = 0; i < count; i += kStepLanes<Signed>) {
    const auto x = hn::LoadU(tag, reinterpret_cast<const Signed*>(data + i));
    const auto magnitude = hn::And(x, magnitude_bits);
    nans.Add(hn::Gt(magnitude, number_max));
    if constexpr (Bits::kInfinity != 0) infs.Add(hn::Eq(magnitude, number_max));
  }
  totals->nans += nans.Take();
  totals->infs += infs.Take();
}

template <class Format>
class Feeder {
 public:
  using Raw = typename Format::Raw;
  using Extremes = typename ExtremesFor<Format>::Type;

  Feeder(const Limits& limits, ChunkState* state) : state_(state), sums_(*state), extremes_(limits) {}

  HWY_INLINE void FeedBlock(const Raw* HWY_RESTRICT data, int64_t count) {
    for (int64_t i = 0; i < count; i += kStep) {
      for (int line = 0; line < static_cast<int>(kStep * sizeof(Raw)); line += kLineBytes)
        hwy::Prefetch(reinterpret_cast<const char*>(data + i) + kPrefetchBytes + line);
      sums_.Add(data + i);
      sums_.Add(data + i + kLanes);
      extremes_.Add(data + i, &zeros_);
    }
    Settle(data, count);
  }

  // Fewer than kStep elements. Zeros beyond them leave the sums as they are; repeats of the last one leave the
  // extremes.
  void FeedTail(const Raw* data, int64_t count) {
    Raw padded[kStep] = {};
    std::memcpy(padded, data, static_cast<size_t>(count) * sizeof(Raw));
    sums_.Add(padded);
    if (count > kLanes) sums_.Add(padded + kLanes);
    const Raw last = padded[count - 1];
    for (int64_t i = count; i < kStep; ++i) padded[i] = last;
    extremes_.Add(padded, &zeros_);
    if (extremes_.IsZero(last)) state_->totals.zeros -= kStep - count;
    for (int64_t i = count; i < kStep; ++i) padded[i] = Raw{};
    Settle(padded, kStep);
  }

  void Finish() {
    sums_.Save(state_);
    const Found found = extremes_.Result();
    Totals& totals = state_->totals;
    totals.min = found.min < totals.min ? found.min : totals.min;
    totals.max = found.max > totals.max ? found.max : totals.max;
    totals.min_int = found.min_int < totals.min_int ? found.min_int : totals.min_int;
    totals.max_int = found.max_int > totals.max_int ? found.max_int : totals.max_int;
  }

 private:
  // A sum of squares that is finite proves that all was finite so far; only otherwise the block, which is still in the
  // cache, is looked at again.
  HWY_INLINE void Settle(const Raw* data, int64_t count) {
    state_->totals.zeros += zeros_.Take();
    if constexpr (BitsOf<Format>::kFloat) {
      if (HWY_UNLIKELY(!sums_.AllFinite())) CountNonFinite<Format>(data, count, &state_->totals);
    }
  }

  ChunkState* const state_;
  Sums<Format> sums_;
  Extremes extremes_;
  Counter<typename ExtremesFor<Format>::Counted> zeros_;
};

template <class Format>
void Feed(const void* address, int64_t count, const Limits& limits, ChunkState* state) {
  if (count == 0) return;
  const auto* data = static_cast<const typename Format::Raw*>(address);
  constexpr int64_t kMax = kBlock<typename Format::Raw>;
  Feeder<Format> feeder(limits, state);
  while (count >= kStep) {
    const int64_t block = count < kMax ? count - count % kStep : kMax;
    feeder.FeedBlock(data, block);
    data += block;
    count -= block;
  }
  if (count > 0) feeder.FeedTail(data, count);
  feeder.Finish();
}

// Elements that have a sign: neither zero nor NaN.
template <class Format, class T>
HWY_INLINE hn::Mask<StepTag<T>> HaveSign(hn::Vec<StepTag<T>> x) {
  const StepTag<T> tag;
  if constexpr (BitsOf<Format>::kFloat) {
    using Bits = BitsOf<Format>;
    const auto magnitude = hn::And(x, hn::Set(tag, static_cast<T>(Bits::kMagnitude)));
    return hn::And(hn::Gt(magnitude, hn::Zero(tag)),
                   hn::Lt(magnitude, hn::Set(tag, static_cast<T>(Bits::kNumberMax + 1))));
  } else {
    return hn::Ne(x, hn::Zero(tag));
  }
}

// `count` is a multiple of kStep, at most a block.
template <class Format, class T>
int64_t MultiplySignsOfBlock(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t count) {
  const StepTag<T> tag;
  Counter<T> both, opposed;
  for (int64_t i = 0; i < count; i += kStepLanes<T>) {
    const auto x = hn::LoadU(tag, a + i), y = hn::LoadU(tag, b + i);
    const auto have = hn::And(HaveSign<Format, T>(x), HaveSign<Format, T>(y));
    both.Add(have);
    if constexpr (std::is_signed_v<T>) opposed.Add(hn::And(have, hn::Lt(hn::Xor(x, y), hn::Zero(tag))));
  }
  return both.Take() - 2 * opposed.Take();
}

template <class Format>
int64_t MultiplySigns(const void* address_a, const void* address_b, int64_t count) {
  // The sign of a float is that of its bits.
  using T = typename BitsOf<Format>::Signed;
  const auto* a = static_cast<const T*>(address_a);
  const auto* b = static_cast<const T*>(address_b);
  int64_t sum = 0;
  while (count >= kStep) {
    const int64_t block = count < kBlock<T> ? count - count % kStep : kBlock<T>;
    sum += MultiplySignsOfBlock<Format, T>(a, b, block);
    a += block;
    b += block;
    count -= block;
  }
  if (count == 0) return sum;
  T padded_a[kStep] = {}, padded_b[kStep] = {};
  std::memcpy(padded_a, a, static_cast<size_t>(count) * sizeof(T));
  std::memcpy(padded_b, b, static_cast<size_t>(count) * sizeof(T));
  return sum + MultiplySignsOfBlock<Format, T>(padded_a, padded_b, kStep);
}

template <class Format>
constexpr Loops LoopsOf() {
  return {Feed<Format>, MultiplySigns<Format>};
}

constexpr const char* Name() {
#if HWY_TARGET == HWY_AVX3
  return "avx512";
#elif HWY_TARGET == HWY_AVX2
  return "avx2";
#elif HWY_TARGET == HWY_SSE4
  return "sse4";
#elif HWY_TARGET == HWY_NEON
  return "neon";
#else
  return "scalar";
#endif
}

// In the order of DType.
const Level kLevel = {Name(),
                      {LoopsOf<Float64>(), LoopsOf<Float32>(), LoopsOf<Float16>(), LoopsOf<BFloat16>(),
                       LoopsOf<Float8E4M3>(), LoopsOf<Float8E5M2>(), LoopsOf<Int64>(), LoopsOf<Int32>(),
                       LoopsOf<Int16>(), LoopsOf<Int8>(), LoopsOf<UInt8>(), LoopsOf<Bool>()}};

const Level* GetLevel() {
  return &kLevel;
}

}  // namespace stepwatch::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stepwatch::kernels {

// Highway's own dispatch keeps its choice for the whole program; here each caller may ask for any level.
std::vector<const Level*> AvailableLevels() {
  const int64_t supported = hwy::SupportedTargets();
  std::vector<const Level*> levels;
#if HWY_TARGETS & HWY_AVX3
  if ((supported & HWY_AVX3) != 0) levels.push_back(N_AVX3::GetLevel());
#endif
#if HWY_TARGETS & HWY_AVX2
  if ((supported & HWY_AVX2) != 0) levels.push_back(N_AVX2::GetLevel());
#endif
#if HWY_TARGETS & HWY_SSE4
  if ((supported & HWY_SSE4) != 0) levels.push_back(N_SSE4::GetLevel());
#endif
#if HWY_TARGETS & HWY_NEON
  if ((supported & HWY_NEON) != 0) levels.push_back(N_NEON::GetLevel());
#endif
#if HWY_TARGETS & HWY_SCALAR
  levels.push_back(N_SCALAR::GetLevel());
#elif HWY_TARGETS & HWY_EMU128
  levels.push_back(N_EMU128::GetLevel());
#endif
  return levels;
}

}  // namespace stepwatch::kernels
#endif
