// Minimum, maximum and the count of zeros on raw elements. Included once for each instruction set,
// by loops.cc.
#if defined(STEPWATCH_KERNELS_EXTREMES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEPWATCH_KERNELS_EXTREMES_INL_H_
#undef STEPWATCH_KERNELS_EXTREMES_INL_H_
#else
#define STEPWATCH_KERNELS_EXTREMES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/limits.h"
#include "kernels/step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stepwatch::kernels::HWY_NAMESPACE {

// Result of one loop call. If the elements include a NaN, min and max are unspecified and not read.
struct Found {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  int64_t min_int = std::numeric_limits<int64_t>::max();
  int64_t max_int = std::numeric_limits<int64_t>::min();
};

// The classes below find the extremes of raw elements and count zeros. Their state lies in memory between the loops,
// because g++ keeps a vector that is a member in memory during the loops as well. Load, then Add of kStep elements for
// at most a block, then Store of that block, which returns the number of its zeros.

template <class T>
struct MinMax {
  HWY_ALIGN T min[kStepLanes<T>];
  HWY_ALIGN T max[kStepLanes<T>];

  void Fill(T low, T high) {
    for (int i = 0; i < kStepLanes<T>; ++i) min[i] = high, max[i] = low;
  }
  T Min() const {
    T least = min[0];
    for (int i = 1; i < kStepLanes<T>; ++i) least = min[i] < least ? min[i] : least;
    return least;
  }
  T Max() const {
    T most = max[0];
    for (int i = 1; i < kStepLanes<T>; ++i) most = max[i] > most ? max[i] : most;
    return most;
  }
};

// Common part of the types that are compared without conversion.
template <class T>
class OrderedExtremes {
 public:
  explicit OrderedExtremes(T low, T high) { found_.Fill(low, high); }

  struct Registers {
    hn::Vec<StepTag<T>> min, max;
    Counter<T> zeros;
  };

  HWY_INLINE void Load(Registers* registers) const {
    registers->min = hn::Load(StepTag<T>(), found_.min);
    registers->max = hn::Load(StepTag<T>(), found_.max);
    registers->zeros.Clear();
  }

  HWY_INLINE int64_t Store(const Registers& registers, const T*, int64_t) {
    hn::Store(registers.min, StepTag<T>(), found_.min);
    hn::Store(registers.max, StepTag<T>(), found_.max);
    return registers.zeros.Sum();
  }

 protected:
  MinMax<T> found_;
};

// --- fp64, fp32: compared as numbers ---

template <class T>
class NumberExtremes : public OrderedExtremes<T> {
 public:
  using Registers = typename OrderedExtremes<T>::Registers;

  explicit NumberExtremes(const Limits& limits)
      : OrderedExtremes<T>(-std::numeric_limits<T>::infinity(), std::numeric_limits<T>::infinity()),
        threshold_(std::is_same_v<T, float> ? static_cast<T>(limits.float32) : static_cast<T>(limits.threshold)) {}

  HWY_INLINE void Add(const T* HWY_RESTRICT data, Registers* registers) const {
    const StepTag<T> tag;
    const auto threshold = hn::Set(tag, threshold_);
    HWY_UNROLL(16)
    for (int i = 0; i < kStep; i += 2 * kStepLanes<T>) {
      const auto x = hn::LoadU(tag, data + i), y = hn::LoadU(tag, data + i + kStepLanes<T>);
      registers->zeros.Add(hn::Lt(hn::Abs(x), threshold));
      registers->zeros.Add(hn::Lt(hn::Abs(y), threshold));
      registers->min = hn::Min(hn::Min(x, y), registers->min);
      registers->max = hn::Max(hn::Max(x, y), registers->max);
    }
  }

  bool IsZero(T x) const { return (x < 0 ? -x : x) < threshold_; }

  Found Result() const {
    Found found;
    found.min = static_cast<double>(this->found_.Min());
    found.max = static_cast<double>(this->found_.Max());
    return found;
  }

 private:
  const T threshold_;
};

// --- fp16, bf16, fp8: compared as integers ---
// Read as signed integers the positive ones are in order and above the negative ones; read as unsigned the negative
// ones are above and in falling order. So the largest signed and unsigned decide if both signs occur, and the smallest
// magnitude if only one does. The smallest magnitude also shows whether there is a zero to count.

template <class Bits>
class KeyExtremes {
 public:
  using U = typename Bits::Unsigned;
  using S = typename Bits::Signed;

  explicit KeyExtremes(const Limits& limits)
      : threshold_(sizeof(U) == 2 ? static_cast<U>(limits.bits16) : static_cast<U>(limits.bits8)) {
    as_unsigned_.Fill(0, std::numeric_limits<U>::max());
    as_signed_.Fill(std::numeric_limits<S>::min(), 0);
  }

  struct Registers {
    hn::Vec<StepTag<U>> max, min_magnitude;
    hn::Vec<StepTag<S>> max_signed;
  };

  HWY_INLINE void Load(Registers* registers) const {
    registers->max = hn::Load(StepTag<U>(), as_unsigned_.max);
    registers->max_signed = hn::Load(StepTag<S>(), as_signed_.max);
    registers->min_magnitude = hn::Set(StepTag<U>(), std::numeric_limits<U>::max());
  }

  HWY_INLINE void Add(const U* HWY_RESTRICT data, Registers* registers) const {
    const StepTag<U> tag;
    const StepTag<S> signed_tag;
    const auto magnitude_bits = hn::Set(tag, Bits::kMagnitude);
    HWY_UNROLL(32)
    for (int i = 0; i < kStep; i += kStepLanes<U>) {
      const auto x = hn::LoadU(tag, data + i);
      registers->max = hn::Max(registers->max, x);
      registers->max_signed = hn::Max(registers->max_signed, hn::BitCast(signed_tag, x));
      registers->min_magnitude = hn::Min(registers->min_magnitude, hn::And(x, magnitude_bits));
    }
  }

  // Reads the data again if it contains zeros.
  HWY_INLINE int64_t Store(const Registers& registers, const U* HWY_RESTRICT data, int64_t count) {
    const StepTag<U> tag;
    const StepTag<S> signed_tag;
    hn::Store(registers.max, tag, as_unsigned_.max);
    hn::Store(registers.max_signed, signed_tag, as_signed_.max);
    hn::Store(hn::Min(registers.min_magnitude, hn::Load(tag, as_unsigned_.min)), tag, as_unsigned_.min);
    const auto threshold = hn::Set(signed_tag, static_cast<S>(threshold_));
    if (hn::AllFalse(signed_tag, hn::Lt(hn::BitCast(signed_tag, registers.min_magnitude), threshold))) return 0;
    return CountZeros(data, count);
  }

  bool IsZero(U x) const { return (x & Bits::kMagnitude) < threshold_; }

  Found Result() const {
    const U magnitude = as_unsigned_.Min(), high = as_unsigned_.Max();
    const S top = as_signed_.Max();
    const U sign = static_cast<U>(Bits::kMagnitude + 1);
    Found found;
    found.max = Bits::Decode(top >= 0 ? static_cast<U>(top) : static_cast<U>(magnitude | sign));
    found.min = Bits::Decode(high >= sign ? high : magnitude);
    return found;
  }

 private:
  int64_t CountZeros(const U* HWY_RESTRICT data, int64_t count) const {
    const StepTag<S> tag;
    const auto magnitude_bits = hn::Set(tag, static_cast<S>(Bits::kMagnitude));
    const auto threshold = hn::Set(tag, static_cast<S>(threshold_));
    Counter<S> zeros;
    zeros.Clear();
    for (int64_t i = 0; i < count; i += kStepLanes<S>) {
      const auto x = hn::LoadU(tag, reinterpret_cast<const S*>(data + i));
      zeros.Add(hn::Lt(hn::And(x, magnitude_bits), threshold));
    }
    return zeros.Sum();
  }

  const U threshold_;
  MinMax<U> as_unsigned_;  // min: of the magnitudes
  MinMax<S> as_signed_;
};

// --- integers and bool ---

template <class T, bool kBool>
class IntegerExtremes : public OrderedExtremes<T> {
 public:
  using Registers = typename OrderedExtremes<T>::Registers;

  explicit IntegerExtremes(const Limits& limits)
      : OrderedExtremes<T>(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()),
        threshold_(limits.threshold),
        any_(limits.zero_from <= limits.zero_to ? 1 : 0),
        from_(Clamp(limits.zero_from)),
        to_(Clamp(limits.zero_to)) {}

  HWY_INLINE void Add(const T* HWY_RESTRICT data, Registers* registers) const {
    const StepTag<T> tag;
    HWY_UNROLL(32)
    for (int i = 0; i < kStep; i += kStepLanes<T>) {
      auto x = hn::LoadU(tag, data + i);
      if constexpr (kBool) x = hn::Min(x, hn::Set(tag, T{1}));
      registers->min = hn::Min(registers->min, x);
      registers->max = hn::Max(registers->max, x);
      registers->zeros.Add(AreZero(x));
    }
  }

  bool IsZero(T x) const {
    if constexpr (sizeof(T) == 8) return (x < 0 ? -static_cast<double>(x) : static_cast<double>(x)) < threshold_;
    if constexpr (kBool) x = x != 0;
    return any_ != 0 && from_ <= x && x <= to_;
  }

  Found Result() const {
    Found found;
    found.min_int = static_cast<int64_t>(this->found_.Min());
    found.max_int = static_cast<int64_t>(this->found_.Max());
    return found;
  }

 private:
  static T Clamp(int64_t value) {
    constexpr int64_t kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
    return static_cast<T>(value < kLow ? kLow : value > kHigh ? kHigh : value);
  }

  // 64-bit integers are compared as the doubles that the sums see.
  HWY_INLINE hn::Mask<StepTag<T>> AreZero(hn::Vec<StepTag<T>> x) const {
    const StepTag<T> tag;
    if constexpr (sizeof(T) == 8) {
      const hn::RebindToFloat<StepTag<T>> doubles;
      return hn::RebindMask(tag, hn::Lt(hn::Abs(hn::ConvertTo(doubles, x)), hn::Set(doubles, threshold_)));
    } else {
      const auto any = hn::Eq(hn::Set(tag, any_), hn::Set(tag, T{1}));
      return hn::And(any, hn::Eq(x, hn::Min(hn::Max(x, hn::Set(tag, from_)), hn::Set(tag, to_))));
    }
  }

  const double threshold_;
  const T any_;  // 1 if any integer counts as zero, else 0
  const T from_, to_;
};

template <class Format>
struct ExtremesFor {
  using Type = KeyExtremes<BitsOf<Format>>;
};
template <class Number>
struct NumbersFor {
  using Type = NumberExtremes<Number>;
};
template <class Integer, bool kBool = false>
struct IntegersFor {
  using Type = IntegerExtremes<Integer, kBool>;
};
template <>
struct ExtremesFor<Float64> : NumbersFor<double> {};
template <>
struct ExtremesFor<Float32> : NumbersFor<float> {};
template <>
struct ExtremesFor<Int64> : IntegersFor<int64_t> {};
template <>
struct ExtremesFor<Int32> : IntegersFor<int32_t> {};
template <>
struct ExtremesFor<Int16> : IntegersFor<int16_t> {};
template <>
struct ExtremesFor<Int8> : IntegersFor<int8_t> {};
template <>
struct ExtremesFor<UInt8> : IntegersFor<uint8_t> {};
template <>
struct ExtremesFor<Bool> : IntegersFor<uint8_t, true> {};

}  // namespace stepwatch::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
