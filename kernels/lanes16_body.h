// The loops of lanes16.h for the instruction set that the including file is compiled for.
//
// Everything is in an unnamed namespace and nothing inline is taken from other headers: a shared inline function
// compiled here with AVX-512 could be the copy that the linker keeps for all.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/lanes16.h"

namespace stepwatch::kernels::lanes16 {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
constexpr int kPerVector = kVectorBytes / 8;   // doubles
constexpr int kVectors = kWidth / kPerVector;  // that make up the sixteen lanes
constexpr int64_t kPrefetchBytes = 2048;       // ahead of the loads; twice that is slower for fp32

typedef double Doubles __attribute__((vector_size(kVectorBytes)));
typedef int64_t Longs __attribute__((vector_size(kVectorBytes)));
typedef float Floats __attribute__((vector_size(kVectorBytes / 2)));
typedef uint32_t Words __attribute__((vector_size(kVectorBytes / 2)));
typedef uint16_t Halves __attribute__((vector_size(kVectorBytes / 4)));

template <class Vector>
Vector LoadVector(const void* address) {
  Vector vector;
  std::memcpy(&vector, address, sizeof vector);
  return vector;
}

// The conversions that g++ 12 makes badly out of __builtin_convertvector are spelt out.
#if defined(__AVX512F__)
inline Doubles Widen(Floats x) {
  return (Doubles)_mm512_cvtps_pd((__m256)x);
}
inline Words Widen(Halves x) {
  return (Words)_mm256_cvtepu16_epi32((__m128i)x);
}
inline Floats FromFloat16(Halves x) {
  return (Floats)_mm256_cvtph_ps((__m128i)x);
}
#elif defined(__AVX2__)
inline __m128i Low(Halves x) {
  return _mm_cvtsi64_si128((int64_t)x);
}
inline Doubles Widen(Floats x) {
  return (Doubles)_mm256_cvtps_pd((__m128)x);
}
inline Words Widen(Halves x) {
  return (Words)_mm_cvtepu16_epi32(Low(x));
}
inline Floats FromFloat16(Halves x) {
  return (Floats)_mm_cvtph_ps(Low(x));
}
#else
inline Doubles Widen(Floats x) {
  return __builtin_convertvector(x, Doubles);
}
inline Words Widen(Halves x) {
  return __builtin_convertvector(x, Words);
}

// The exponent is rebiased by 112, that of infinity and NaN once more. A subnormal becomes the fraction of 2^-14, which
// is then subtracted; no single that arises is subnormal, so that a thread's flush-to-zero mode changes nothing.
inline Floats FromFloat16(Halves x) {
  const Words code = Widen(x);
  const Words magnitude = code & 0x7fff;
  const Words shifted = (magnitude << 13) + (112u << 23);
  const Words normal = shifted + ((Words)(magnitude >= 0x7c00) & (112u << 23));
  const Words subnormal = (Words)((Floats)(shifted + (1u << 23)) - 0x1p-14f);
  const Words bits = magnitude < 0x400 ? subnormal : normal;
  return (Floats)(bits | (code & 0x8000) << 16);
}
#endif

struct Float64 {
  using Raw = double;
  static Doubles Load(const Raw* data) { return LoadVector<Doubles>(data); }
};

struct Float32 {
  using Raw = float;
  static Doubles Load(const Raw* data) { return Widen(LoadVector<Floats>(data)); }
};

struct Float16 {
  using Raw = uint16_t;
  static Doubles Load(const Raw* data) { return Widen(FromFloat16(LoadVector<Halves>(data))); }
};

struct BFloat16 {
  using Raw = uint16_t;
  static Doubles Load(const Raw* data) { return Widen((Floats)(Widen(LoadVector<Halves>(data)) << 16)); }
};

inline Doubles Absolute(Doubles x) {
  return (Doubles)((Longs)x & INT64_MAX);
}

// Sixteen lanes in registers.
struct Registers {
  Doubles sum[kVectors], sum_of_squares[kVectors], min[kVectors], max[kVectors];
  Longs zeros[kVectors];
};
static_assert(sizeof(Registers) == sizeof(State));  // one is copied into the other

// A comparison with NaN is false, so min, max and zeros pass over it without a test.
inline void Add(Doubles x, Doubles threshold, int i, Registers* lanes) {
  lanes->sum[i] += x;
  lanes->sum_of_squares[i] += x * x;
  lanes->min[i] = x < lanes->min[i] ? x : lanes->min[i];
  lanes->max[i] = x > lanes->max[i] ? x : lanes->max[i];
  lanes->zeros[i] -= Absolute(x) < threshold;
}

// The elements after the last sixteen, each alone in its lane.
template <class Format>
void FeedTail(const typename Format::Raw* data, int64_t count, double threshold, State* state) {
  typename Format::Raw padded[kWidth] = {};
  std::memcpy(padded, data, static_cast<size_t>(count) * sizeof *data);
  double values[kWidth];
  for (int i = 0; i < kVectors; ++i) {
    const Doubles x = Format::Load(padded + i * kPerVector);
    std::memcpy(values + i * kPerVector, &x, sizeof x);
  }
  for (int64_t i = 0; i < count; ++i) {
    const double x = values[i];
    state->sum[i] += x;
    state->sum_of_squares[i] += x * x;
    if (x < state->min[i]) state->min[i] = x;
    if (x > state->max[i]) state->max[i] = x;
    if (__builtin_fabs(x) < threshold) ++state->zeros[i];
  }
}

template <class Format>
void Feed(const void* address, int64_t count, double threshold, State* state) {
  const auto* data = static_cast<const typename Format::Raw*>(address);
  Registers lanes;
  std::memcpy(&lanes, state, sizeof lanes);
  const Doubles thresholds = threshold - Doubles{};
  for (; count >= kWidth; count -= kWidth, data += kWidth) {
    __builtin_prefetch(reinterpret_cast<const char*>(data) + kPrefetchBytes);
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) Add(Format::Load(data + i * kPerVector), thresholds, i, &lanes);
  }
  std::memcpy(state, &lanes, sizeof lanes);
  if (count > 0) FeedTail<Format>(data, count, threshold, state);
}

inline int64_t SumOf(Longs lanes) {
  int64_t sum = 0;
  for (int i = 0; i < kPerVector; ++i) sum += lanes[i];
  return sum;
}

// Calls `visit(x, y)` with kPerVector elements of each array at a time; zeros fill up the last.
template <class Format, class Visitor>
void ForEachVector(const void* a, const void* b, int64_t count, Visitor visit) {
  const auto* data_a = static_cast<const typename Format::Raw*>(a);
  const auto* data_b = static_cast<const typename Format::Raw*>(b);
  for (; count >= kPerVector; count -= kPerVector, data_a += kPerVector, data_b += kPerVector)
    visit(Format::Load(data_a), Format::Load(data_b));
  if (count == 0) return;
  typename Format::Raw padded_a[kPerVector] = {}, padded_b[kPerVector] = {};
  std::memcpy(padded_a, data_a, static_cast<size_t>(count) * sizeof *data_a);
  std::memcpy(padded_b, data_b, static_cast<size_t>(count) * sizeof *data_b);
  visit(Format::Load(padded_a), Format::Load(padded_b));
}

template <class Format>
NonFinite CountNonFinite(const void* data, int64_t count) {
  Longs nans{}, infs{};
  ForEachVector<Format>(data, data, count, [&](Doubles x, Doubles) {
    nans -= x != x;
    infs -= Absolute(x) == __builtin_inf();
  });
  return {SumOf(nans), SumOf(infs)};
}

template <class Format>
int64_t MultiplySigns(const void* a, const void* b, int64_t count) {
  Longs sum{};
  ForEachVector<Format>(a, b, count, [&](Doubles x, Doubles y) { sum += ((x < 0) - (x > 0)) * ((y < 0) - (y > 0)); });
  return SumOf(sum);
}

template <class Format>
constexpr Loops kLoops = {Feed<Format>, CountNonFinite<Format>, MultiplySigns<Format>};

}  // namespace
}  // namespace stepwatch::kernels::lanes16
