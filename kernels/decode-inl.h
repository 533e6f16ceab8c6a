// Decodes groups of elements of one dtype into fp64 vectors. Included once for each instruction set, by loops.cc.
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

// Four doubles also where eight would fit: widening four singles from memory takes no shuffle, and processors that cut
// vectors of 512 bits in two gain nothing from eight. The narrower vectors below hold as many elements.
using Doubles = hn::CappedTag<double, 4>;
using Longs = hn::RebindToSigned<Doubles>;
using Singles = hn::Rebind<float, Doubles>;
using SignedWords = hn::Rebind<int32_t, Doubles>;
using SignedHalves = hn::Rebind<int16_t, Doubles>;
using Bytes = hn::Rebind<uint8_t, Doubles>;
using SignedBytes = hn::Rebind<int8_t, Doubles>;
using DoubleVector = hn::Vec<Doubles>;

constexpr int kPerVector = static_cast<int>(hn::MaxLanes(Doubles()));
constexpr int kVectors = kLanes / kPerVector;  // per sixteen lanes

// Sixteen elements are kVectors vectors. The even ones of bf16 come first, then the odd ones, as they are cut out
// of 32-bit words; all others are in order. The element, and so the canonical lane, that is lane i % kPerVector of
// vector i / kPerVector:
constexpr size_t CanonicalLane(bool even_odd, int i) {
  constexpr int kHalf = kLanes / 2;
  return static_cast<size_t>(!even_odd ? i : i < kHalf ? 2 * i : 2 * (i - kHalf) + 1);
}

using Singles16 = hn::CappedTag<float, kLanes>;  // as wide as the processor supports
using Words16 = hn::RebindToUnsigned<Singles16>;
using Halves16 = hn::Rebind<uint16_t, Singles16>;
using Bytes16 = hn::Rebind<uint8_t, Singles16>;
constexpr int kSinglesPerVector = static_cast<int>(hn::MaxLanes(Singles16()));

// fp16 codes to fp32. Without processor support: the exponent is rebiased by 112, that of infinity and NaN once more; a
// subnormal becomes the fraction of 2^-14, which is then subtracted. No intermediate single is subnormal, so a thread's
// flush-to-zero mode changes nothing.
HWY_INLINE hn::Vec<Singles16> SinglesOfHalves(hn::Vec<Halves16> code) {
  const Singles16 singles;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::PromoteTo(singles, hn::BitCast(hn::Rebind<hwy::float16_t, Singles16>(), code));
#else
  const Words16 words;
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

// --- formats that are widened straight to fp64 ---
// Raw; kExactSquares: a product of two elements is exact in fp64, so that a fused multiply-add gives the same bits;
// Widen: the kPerVector elements at `data`.

template <class RawType, bool kExact>
struct Direct {
  using Raw = RawType;
  static constexpr bool kThroughSingles = false;
  static constexpr bool kEvenOdd = false;
  static constexpr bool kExactSquares = kExact;
};

struct Float64 : Direct<double, false> {
  static HWY_INLINE DoubleVector Widen(const double* data) { return hn::LoadU(Doubles(), data); }
};

struct Float32 : Direct<float, true> {
  static HWY_INLINE DoubleVector Widen(const float* data) {
    return hn::PromoteTo(Doubles(), hn::LoadU(Singles(), data));
  }
};

struct Int64 : Direct<int64_t, false> {
  static HWY_INLINE DoubleVector Widen(const int64_t* data) {
    return hn::ConvertTo(Doubles(), hn::LoadU(Longs(), data));
  }
};

struct Int32 : Direct<int32_t, false> {
  static HWY_INLINE DoubleVector Widen(const int32_t* data) {
    return hn::PromoteTo(Doubles(), hn::LoadU(SignedWords(), data));
  }
};

struct Int16 : Direct<int16_t, true> {
  static HWY_INLINE DoubleVector Widen(const int16_t* data) {
    return hn::PromoteTo(Doubles(), hn::PromoteTo(SignedWords(), hn::LoadU(SignedHalves(), data)));
  }
};

struct Int8 : Direct<int8_t, true> {
  static HWY_INLINE DoubleVector Widen(const int8_t* data) {
    return hn::PromoteTo(Doubles(), hn::PromoteTo(SignedWords(), hn::LoadU(SignedBytes(), data)));
  }
};

struct UInt8 : Direct<uint8_t, true> {
  static HWY_INLINE DoubleVector Widen(const uint8_t* data) {
    return hn::PromoteTo(Doubles(), hn::PromoteTo(SignedWords(), hn::LoadU(Bytes(), data)));
  }
};

// Any byte except 0 is true.
struct Bool : Direct<uint8_t, true> {
  static HWY_INLINE DoubleVector Widen(const uint8_t* data) {
    const auto truth = hn::Min(hn::LoadU(Bytes(), data), hn::Set(Bytes(), 1));
    return hn::PromoteTo(Doubles(), hn::PromoteTo(SignedWords(), truth));
  }
};

// --- formats that are first widened to fp32, into a small buffer ---
// A load that widens to fp64 needs no shuffle, which makes up for the store. Write: `count` elements, a multiple of
// kLanes, become as many singles.

template <class Derived, class RawType>
struct ThroughSingles {
  using Raw = RawType;
  static constexpr bool kThroughSingles = true;
  static constexpr bool kEvenOdd = false;
  static constexpr bool kExactSquares = true;
  static HWY_INLINE void Write(const Raw* HWY_RESTRICT data, int64_t count, float* HWY_RESTRICT singles) {
    for (int64_t i = 0; i < count; i += kSinglesPerVector)
      hn::StoreU(Derived::Decode(data + i), Singles16(), singles + i);
  }
};

struct Float16 : ThroughSingles<Float16, uint16_t> {
  static HWY_INLINE hn::Vec<Singles16> Decode(const uint16_t* data) {
    return SinglesOfHalves(hn::LoadU(Halves16(), data));
  }
};

// The upper byte of an fp16.
struct Float8E5M2 : ThroughSingles<Float8E5M2, uint8_t> {
  static HWY_INLINE hn::Vec<Singles16> Decode(const uint8_t* data) {
    return SinglesOfHalves(hn::ShiftLeft<8>(hn::PromoteTo(Halves16(), hn::LoadU(Bytes16(), data))));
  }
};

// An fp16 whose exponent is 8 too small, so the value is 2^8 times that of the fp16; 0x7f is NaN.
struct Float8E4M3 : ThroughSingles<Float8E4M3, uint8_t> {
  static HWY_INLINE hn::Vec<Singles16> Decode(const uint8_t* data) {
    const Halves16 halves;
    const auto code = hn::PromoteTo(halves, hn::LoadU(Bytes16(), data));
    const auto magnitude = hn::And(code, hn::Set(halves, 0x7f));
    const auto is_nan = hn::Eq(magnitude, hn::Set(halves, 0x7f));
    const auto number = hn::IfThenElse(is_nan, hn::Set(halves, 0x7e00), hn::ShiftLeft<7>(magnitude));
    const auto half = hn::Or(number, hn::ShiftLeft<8>(hn::And(code, hn::Set(halves, 0x80))));
    return hn::Mul(SinglesOfHalves(half), hn::Set(Singles16(), 256.0f));
  }
};

// Each sixteen: the eight even elements, then the eight odd ones.
struct BFloat16 {
  using Raw = uint16_t;
  static constexpr bool kThroughSingles = true;
  static constexpr bool kEvenOdd = true;
  static constexpr bool kExactSquares = true;
  static HWY_INLINE void Write(const Raw* HWY_RESTRICT data, int64_t count, float* HWY_RESTRICT singles) {
    const hn::CappedTag<uint32_t, kLanes / 2> words;
    constexpr int kWords = static_cast<int>(hn::MaxLanes(words));
    const auto upper = hn::Set(words, 0xffff0000u);
    auto* bits = reinterpret_cast<uint32_t*>(singles);
    for (int64_t i = 0; i < count; i += kLanes) {
      HWY_UNROLL(8)
      for (int k = 0; k < kLanes / 2; k += kWords) {
        const auto pairs = hn::LoadU(words, reinterpret_cast<const uint32_t*>(data + i) + k);
        hn::StoreU(hn::ShiftLeft<16>(pairs), words, bits + i + k);
        hn::StoreU(hn::And(pairs, upper), words, bits + i + kLanes / 2 + k);
      }
    }
  }
};

}  // namespace stepwatch::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
