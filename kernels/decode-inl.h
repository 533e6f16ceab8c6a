// How a group of elements of one dtype becomes fp64 vectors. Included once for each instruction set, by loops.cc.
#if defined(STEPWATCH_KERNELS_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEPWATCH_KERNELS_DECODE_INL_H_
#undef STEPWATCH_KERNELS_DECODE_INL_H_
#else
#define STEPWATCH_KERNELS_DECODE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/totals.h"

HWY_BEFORE_NAMESPACE();
namespace stepwatch::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most eight doubles a vector; the narrower vectors below hold as many elements.
using Doubles = hn::CappedTag<double, 8>;
using Longs = hn::RebindToSigned<Doubles>;
using Singles = hn::Rebind<float, Doubles>;
using Words = hn::Rebind<uint32_t, Doubles>;
using SignedWords = hn::Rebind<int32_t, Doubles>;
using Halves = hn::Rebind<uint16_t, Doubles>;
using SignedHalves = hn::Rebind<int16_t, Doubles>;
using Bytes = hn::Rebind<uint8_t, Doubles>;
using SignedBytes = hn::Rebind<int8_t, Doubles>;
using DoubleVector = hn::Vec<Doubles>;

constexpr int kPerVector = static_cast<int>(hn::MaxLanes(Doubles()));
constexpr int kVectors = kLanes / kPerVector;  // that make up the sixteen lanes

// A group of sixteen elements as kVectors vectors. In order: element i is lane i % kPerVector of vector i / kPerVector.
// Paired, for two-byte floats whose even and odd elements are cut out of 32-bit words: of the 2 * kPerVector elements
// that begin with vector k, k even, the even ones are vector k, the odd ones vector k + 1.
//
// The element, and so the canonical lane, that is lane i % kPerVector of vector i / kPerVector.
constexpr size_t CanonicalLane(bool paired, int i) {
  const int vector = i / kPerVector, lane = i % kPerVector;
  return static_cast<size_t>(paired ? (vector & ~1) * kPerVector + 2 * lane + (vector & 1) : i);
}

// fp16 codes to fp32. Where the processor does not do it: the exponent is rebiased by 112, that of infinity and NaN
// once more; a subnormal becomes the fraction of 2^-14, which is then subtracted. No single that arises is subnormal,
// so that a thread's flush-to-zero mode changes nothing.
HWY_INLINE hn::Vec<Singles> SinglesOfHalves(hn::Vec<Halves> code) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::PromoteTo(Singles(), hn::BitCast(hn::Rebind<hwy::float16_t, Doubles>(), code));
#else
  const Words words;
  const Singles singles;
  const auto wide = hn::PromoteTo(words, code);
  const auto magnitude = hn::And(wide, hn::Set(words, 0x7fff));
  const auto rebias = hn::Set(words, 112u << 23);
  const auto shifted = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
  const auto normal = hn::Add(shifted, hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(words, 0x7bff)), rebias));
  const auto fraction = hn::BitCast(singles, hn::Add(shifted, hn::Set(words, 1u << 23)));
  const auto subnormal = hn::BitCast(words, hn::Sub(fraction, hn::Set(singles, 0x1p-14f)));
  const auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(words, 0x400)), subnormal, normal);
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(words, 0x8000)));
  return hn::BitCast(singles, hn::Or(bits, sign));
#endif
}

// Each format: Raw, kPaired, kExactSquares (a product of two elements is exact in fp64, so that a fused multiply-add
// gives the same bits), and Load, which puts the sixteen elements at `data` into `x`.

template <class Derived, class RawType, bool kExact>
struct InOrder {
  using Raw = RawType;
  static constexpr bool kPaired = false;
  static constexpr bool kExactSquares = kExact;
  static HWY_INLINE void Load(const Raw* HWY_RESTRICT data, DoubleVector (&x)[kVectors]) {
    HWY_UNROLL(kVectors)
    for (int k = 0; k < kVectors; ++k) x[k] = Derived::Widen(data + k * kPerVector);
  }
};

struct Float64 : InOrder<Float64, double, false> {
  static HWY_INLINE DoubleVector Widen(const double* data) { return hn::LoadU(Doubles(), data); }
};

struct Float32 : InOrder<Float32, float, true> {
  static HWY_INLINE DoubleVector Widen(const float* data) {
    return hn::PromoteTo(Doubles(), hn::LoadU(Singles(), data));
  }
};

struct Float16 : InOrder<Float16, uint16_t, true> {
  static HWY_INLINE DoubleVector Widen(const uint16_t* data) {
    return hn::PromoteTo(Doubles(), SinglesOfHalves(hn::LoadU(Halves(), data)));
  }
};

struct BFloat16 {
  using Raw = uint16_t;
  static constexpr bool kPaired = true;
  static constexpr bool kExactSquares = true;
  static HWY_INLINE void Load(const Raw* HWY_RESTRICT data, DoubleVector (&x)[kVectors]) {
    const Words words;
    const auto upper = hn::Set(words, 0xffff0000u);
    HWY_UNROLL(kVectors)
    for (int k = 0; k < kVectors; k += 2) {
      const auto pairs = hn::LoadU(words, reinterpret_cast<const uint32_t*>(data + k * kPerVector));
      x[k] = hn::PromoteTo(Doubles(), hn::BitCast(Singles(), hn::ShiftLeft<16>(pairs)));
      x[k + 1] = hn::PromoteTo(Doubles(), hn::BitCast(Singles(), hn::And(pairs, upper)));
    }
  }
};

// The upper byte of an fp16.
struct Float8E5M2 : InOrder<Float8E5M2, uint8_t, true> {
  static HWY_INLINE DoubleVector Widen(const uint8_t* data) {
    const auto code = hn::PromoteTo(Halves(), hn::LoadU(Bytes(), data));
    return hn::PromoteTo(Doubles(), SinglesOfHalves(hn::ShiftLeft<8>(code)));
  }
};

// An fp16 with an exponent that is 8 too small, so the value is 2^8 times that of the fp16; 0x7f is NaN.
struct Float8E4M3 : InOrder<Float8E4M3, uint8_t, true> {
  static HWY_INLINE DoubleVector Widen(const uint8_t* data) {
    const Halves halves;
    const auto code = hn::PromoteTo(halves, hn::LoadU(Bytes(), data));
    const auto magnitude = hn::And(code, hn::Set(halves, 0x7f));
    const auto is_nan = hn::Eq(magnitude, hn::Set(halves, 0x7f));
    const auto number = hn::IfThenElse(is_nan, hn::Set(halves, 0x7e00), hn::ShiftLeft<7>(magnitude));
    const auto half = hn::Or(number, hn::ShiftLeft<8>(hn::And(code, hn::Set(halves, 0x80))));
    return hn::PromoteTo(Doubles(), hn::Mul(SinglesOfHalves(half), hn::Set(Singles(), 256.0f)));
  }
};

struct Int64 : InOrder<Int64, int64_t, false> {
  static HWY_INLINE DoubleVector Widen(const int64_t* data) {
    return hn::ConvertTo(Doubles(), hn::LoadU(Longs(), data));
  }
};

struct Int32 : InOrder<Int32, int32_t, false> {
  static HWY_INLINE DoubleVector Widen(const int32_t* data) {
    return hn::PromoteTo(Doubles(), hn::LoadU(SignedWords(), data));
  }
};

struct Int16 : InOrder<Int16, int16_t, true> {
  static HWY_INLINE DoubleVector Widen(const int16_t* data) {
    return hn::PromoteTo(Doubles(), hn::PromoteTo(SignedWords(), hn::LoadU(SignedHalves(), data)));
  }
};

struct Int8 : InOrder<Int8, int8_t, true> {
  static HWY_INLINE DoubleVector Widen(const int8_t* data) {
    return hn::PromoteTo(Doubles(), hn::PromoteTo(SignedWords(), hn::LoadU(SignedBytes(), data)));
  }
};

struct UInt8 : InOrder<UInt8, uint8_t, true> {
  static HWY_INLINE DoubleVector Widen(const uint8_t* data) {
    return hn::PromoteTo(Doubles(), hn::PromoteTo(SignedWords(), hn::LoadU(Bytes(), data)));
  }
};

// Any byte but 0 is true.
struct Bool : InOrder<Bool, uint8_t, true> {
  static HWY_INLINE DoubleVector Widen(const uint8_t* data) {
    const auto truth = hn::Min(hn::LoadU(Bytes(), data), hn::Set(Bytes(), 1));
    return hn::PromoteTo(Doubles(), hn::PromoteTo(SignedWords(), truth));
  }
};

}  // namespace stepwatch::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
