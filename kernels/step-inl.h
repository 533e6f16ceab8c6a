// Iteration of the loops over raw elements: steps, blocks, counts, and the bits of the floating-point formats. Included
// once for each instruction set, by loops.cc.
#if defined(STEPWATCH_KERNELS_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEPWATCH_KERNELS_STEP_INL_H_
#undef STEPWATCH_KERNELS_STEP_INL_H_
#else
#define STEPWATCH_KERNELS_STEP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/decode-inl.h"
#include "kernels/formats.h"

HWY_BEFORE_NAMESPACE();
namespace stepwatch::kernels::HWY_NAMESPACE {

// Elements processed per iteration of a loop.
constexpr int kStep = 32;
// A block fits into the L1 twice, so that it may be read again; a count in lanes of a byte, 16 of them at least, holds
// 2048 elements.
template <class T>
constexpr int64_t kBlock = sizeof(T) == 1 ? 2048 : 8192 / static_cast<int64_t>(sizeof(T));

template <class T>
using StepTag = hn::CappedTag<T, kStep>;
template <class T>
constexpr int kStepLanes = static_cast<int>(hn::MaxLanes(StepTag<T>()));
template <class T>
constexpr int kStepVectors = kStep / kStepLanes<T>;

// Where a mask is already bits, or one lane, it is counted at once.
#undef STEPWATCH_COUNT_MASKS
#define STEPWATCH_COUNT_MASKS (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_SCALAR)

// Counts true lanes of vectors of T. Must be cleared first: g++ compiles an implicit constructor for the base
// instruction set.
template <class T>
class Counter {
 public:
  using Tag = hn::RebindToUnsigned<StepTag<T>>;
  using Mask = hn::Mask<StepTag<T>>;

  HWY_INLINE void Clear() {
#if STEPWATCH_COUNT_MASKS
    count_ = 0;
#else
    lanes_ = hn::Zero(Tag());
#endif
  }

  HWY_INLINE void Add(Mask mask) {
#if STEPWATCH_COUNT_MASKS
    count_ += hn::CountTrue(StepTag<T>(), mask);
#else
    lanes_ = hn::Sub(lanes_, hn::VecFromMask(Tag(), hn::RebindMask(Tag(), mask)));
#endif
  }

  HWY_INLINE int64_t Sum() const {
#if STEPWATCH_COUNT_MASKS
    return static_cast<int64_t>(count_);
#else
    HWY_ALIGN hn::TFromD<Tag> lanes[kStepLanes<T>];
    hn::Store(lanes_, Tag(), lanes);
    int64_t taken = 0;
    for (int i = 0; i < kStepLanes<T>; ++i) taken += static_cast<int64_t>(lanes[i]);
    return taken;
#endif
  }

 private:
#if STEPWATCH_COUNT_MASKS
  size_t count_;
#else
  hn::Vec<Tag> lanes_;
#endif
};

// The bits of the floating-point formats below their sign. kNumberMax: of the largest value that is not NaN; kInfinity:
// 0 if the format has no infinity.
template <class U, U kInfinityBits, U kNumberMaxBits, auto kDecode>
struct FloatBits {
  static constexpr bool kFloat = true;
  using Unsigned = U;
  using Signed = std::make_signed_t<U>;
  static constexpr U kMagnitude = std::numeric_limits<U>::max() >> 1;
  static constexpr U kInfinity = kInfinityBits;
  static constexpr U kNumberMax = kNumberMaxBits;
  static double Decode(U bits) { return kDecode(bits); }
};

template <class Format>
struct BitsOf {  // an integer, signed or unsigned
  static constexpr bool kFloat = false;
  using Signed = typename Format::Raw;
};
template <>
struct BitsOf<Float64> : FloatBits<uint64_t, 0x7ff0000000000000, 0x7ff0000000000000, Same<uint64_t>> {};
template <>
struct BitsOf<Float32> : FloatBits<uint32_t, 0x7f800000, 0x7f800000, Same<uint32_t>> {};
template <>
struct BitsOf<Float16> : FloatBits<uint16_t, 0x7c00, 0x7c00, DecodeFloat16> {};
template <>
struct BitsOf<BFloat16> : FloatBits<uint16_t, 0x7f80, 0x7f80, DecodeBFloat16> {};
template <>
struct BitsOf<Float8E4M3> : FloatBits<uint8_t, 0, 0x7e, DecodeFloat8E4M3> {};
template <>
struct BitsOf<Float8E5M2> : FloatBits<uint8_t, 0x7c, 0x7c, DecodeFloat8E5M2> {};

}  // namespace stepwatch::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
