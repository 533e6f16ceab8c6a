#include "kernels/loops.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loops.cc"
#include <hwy/foreach_target.h>
// Included after foreach_target.h, so that they are compiled for each of its targets.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/decode-inl.h"
#include "kernels/extremes-inl.h"
#include "kernels/sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stepwatch::kernels::HWY_NAMESPACE {

// Sums and extremes fit into the registers together; otherwise two loops compute them.
constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;
// Elements that the first loop processes before the second: small enough to stay in the cache.
constexpr int64_t kPart = kManyRegisters ? 1024 : 256;
// Elements whose singles are written before they are summed, so that sums are ready to compute while the next elements
// are being loaded.
constexpr int64_t kAhead = 128;
constexpr uintptr_t kLineBytes = 64;

// How far ahead of the loads to prefetch; 0: not at all. Most processors lose up to half of the bandwidth of two-byte
// floats without it. AMD processors prefetch well by themselves where the loads are not bunched, and gain some percent.
HWY_INLINE uintptr_t PrefetchBytes() {
#if HWY_ARCH_X86
  static const bool kOfAmd = __builtin_cpu_is("amd") != 0;
  if (kManyRegisters && kOfAmd) return 0;
#endif
  return 2048;
}

// The address may lie beyond the data, where a prefetch does nothing.
template <class Raw>
HWY_INLINE void PrefetchStep(const Raw* data, uintptr_t prefetch_bytes) {
  const uintptr_t ahead = reinterpret_cast<uintptr_t>(data) + prefetch_bytes;
  for (uintptr_t line = 0; line < kStep * sizeof(Raw); line += kLineBytes)
    hwy::Prefetch(reinterpret_cast<const char*>(ahead + line));
}

// One instruction detects NaN, another infinity.
constexpr bool kClassifies = HWY_TARGET == HWY_AVX3;

// `count` is a multiple of kStep, at most a block.
template <class Format>
void CountNonFinite(const typename Format::Raw* HWY_RESTRICT data, int64_t count, Totals* totals) {
  using Bits = BitsOf<Format>;
  using Signed = typename Bits::Signed;
  const StepTag<Signed> tag;
  const auto magnitude_bits = hn::Set(tag, static_cast<Signed>(Bits::kMagnitude));
  const auto number_max = hn::Set(tag, static_cast<Signed>(Bits::kNumberMax));
  Counter<Signed> nans, infs;
  nans.Clear();
  infs.Clear();
  for (int64_t step = 0; step < count; step += kStep) {
    HWY_UNROLL(32)
    for (int i = 0; i < kStep; i += kStepLanes<Signed>) {
      if constexpr (kClassifies && sizeof(Signed) >= 4) {
        const hn::RebindToFloat<decltype(tag)> floats;
        const auto x = hn::LoadU(floats, reinterpret_cast<const hn::TFromD<decltype(floats)>*>(data + step + i));
        nans.Add(hn::RebindMask(tag, hn::IsNaN(x)));
        infs.Add(hn::RebindMask(tag, hn::IsInf(x)));
      } else {
        const auto magnitude =
            hn::And(hn::LoadU(tag, reinterpret_cast<const Signed*>(data + step + i)), magnitude_bits);
        nans.Add(hn::Gt(magnitude, number_max));
        if constexpr (Bits::kInfinity != 0) infs.Add(hn::Eq(magnitude, number_max));
      }
    }
  }
  totals->nans += nans.Sum();
  totals->infs += infs.Sum();
}

template <class Format>
class Feeder {
 public:
  using Raw = typename Format::Raw;
  using Extremes = typename ExtremesFor<Format>::Type;

  Feeder(const Limits& limits, ChunkState* state)
      : state_(state), sums_(*state), extremes_(limits), prefetch_bytes_(PrefetchBytes()) {}

  // `count` is a multiple of kStep, at most a block.
  HWY_INLINE void FeedBlock(const Raw* HWY_RESTRICT data, int64_t count) {
    typename Sums<Format>::Registers sums;
    typename Extremes::Registers extremes;
    sums_.Load(&sums);
    extremes_.Load(&extremes);
    for (int64_t i = 0; i < count; i += kPart)
      FeedPart(data + i, count - i < kPart ? count - i : kPart, &sums, &extremes);
    Settle(data, count, sums_.Store(sums), extremes_.Store(extremes, data, count));
  }

  // Fewer than kStep elements. Padding zeros do not change the sums; repeats of the last element do not change the
  // extremes.
  void FeedTail(const Raw* data, int64_t count) {
    Raw padded[kStep] = {};
    std::memcpy(padded, data, static_cast<size_t>(count) * sizeof(Raw));
    const Raw last = padded[count - 1];
    Raw repeated[kStep];
    for (int64_t i = 0; i < kStep; ++i) repeated[i] = i < count ? padded[i] : last;
    typename Sums<Format>::Registers sums;
    typename Extremes::Registers extremes;
    sums_.Load(&sums);
    AddElements(padded, count > kLanes ? kStep : kLanes, &sums);
    extremes_.Load(&extremes);
    extremes_.Add(repeated, &extremes);
    const int64_t zeros = extremes_.Store(extremes, repeated, kStep) - (extremes_.IsZero(last) ? kStep - count : 0);
    Settle(padded, kStep, sums_.Store(sums), zeros);
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
  // `count` is a multiple of kStep, at most a part.
  HWY_INLINE void FeedPart(const Raw* HWY_RESTRICT data, int64_t count, typename Sums<Format>::Registers* sums,
                           typename Extremes::Registers* extremes) {
    if constexpr (kManyRegisters && Format::kThroughSingles) {
      FeedAhead(data, count, sums, extremes);
    } else if constexpr (kManyRegisters) {
      for (int64_t i = 0; i < count; i += kStep) {
        PrefetchStep(data + i, prefetch_bytes_);
        Sums<Format>::AddSixteen(data + i, sums);
        Sums<Format>::AddSixteen(data + i + kLanes, sums);
        extremes_.Add(data + i, extremes);
      }
    } else {  // the second loop finds the data in the L1
      for (int64_t i = 0; i < count; i += kStep) PrefetchStep(data + i, prefetch_bytes_);
      AddElements(data, count, sums);
      for (int64_t i = 0; i < count; i += kStep) extremes_.Add(data + i, extremes);
    }
  }

  // FeedPart for elements that are widened through singles.
  HWY_INLINE void FeedAhead(const Raw* HWY_RESTRICT data, int64_t count, typename Sums<Format>::Registers* sums,
                            typename Extremes::Registers* extremes) {
    HWY_ALIGN float singles[kPart];
    const auto read = [&](int64_t i) HWY_ATTR {
      PrefetchStep(data + i, prefetch_bytes_);
      Format::Write(data + i, kStep, singles + i);
      extremes_.Add(data + i, extremes);
    };
    const auto add = [&](int64_t i) HWY_ATTR {
      Sums<Format>::AddSixteen(singles + i, sums);
      Sums<Format>::AddSixteen(singles + i + kLanes, sums);
    };
    const int64_t ahead = count < kAhead ? count : kAhead;
    for (int64_t i = 0; i < ahead; i += kStep) read(i);
    for (int64_t i = ahead; i < count; i += kStep) {
      read(i);
      add(i - ahead);
    }
    for (int64_t i = count - ahead; i < count; i += kStep) add(i);
  }

  // `count` is a multiple of kLanes, at most a part.
  static HWY_INLINE void AddElements(const Raw* HWY_RESTRICT data, int64_t count,
                                     typename Sums<Format>::Registers* sums) {
    if constexpr (Format::kThroughSingles) {
      HWY_ALIGN float singles[kPart];
      Format::Write(data, count, singles);
      for (int64_t i = 0; i < count; i += kLanes) Sums<Format>::AddSixteen(singles + i, sums);
    } else {
      for (int64_t i = 0; i < count; i += kLanes) Sums<Format>::AddSixteen(data + i, sums);
    }
  }

  // A finite sum of squares proves that all elements so far are finite; only otherwise the block, which is still in the
  // cache, is read again.
  HWY_INLINE void Settle(const Raw* data, int64_t count, bool finite, int64_t zeros) {
    state_->totals.zeros += zeros;
    if constexpr (BitsOf<Format>::kFloat) {
      if (HWY_UNLIKELY(!finite)) CountNonFinite<Format>(data, count, &state_->totals);
    }
  }

  ChunkState* const state_;
  Sums<Format> sums_;
  Extremes extremes_;
  const uintptr_t prefetch_bytes_;
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
  const uintptr_t prefetch_bytes = PrefetchBytes();
  Counter<T> both, opposed;
  both.Clear();
  opposed.Clear();
  for (int64_t step = 0; step < count; step += kStep) {
    PrefetchStep(a + step, prefetch_bytes);
    PrefetchStep(b + step, prefetch_bytes);
    HWY_UNROLL(32)
    for (int i = 0; i < kStep; i += kStepLanes<T>) {
      const auto x = hn::LoadU(tag, a + step + i), y = hn::LoadU(tag, b + step + i);
      const auto have = hn::And(HaveSign<Format, T>(x), HaveSign<Format, T>(y));
      both.Add(have);
      if constexpr (std::is_signed_v<T>) opposed.Add(hn::And(have, hn::Lt(hn::Xor(x, y), hn::Zero(tag))));
    }
  }
  return both.Sum() - 2 * opposed.Sum();
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

// Highway's own dispatch fixes its choice for the whole program; here each caller may request any level.
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
