// Primitives that compile both for the device and, thread by thread, for the CPU emulation.
//
// Each function here is one instruction on the device, except for pairs before compute capability 8.0; the CPU form is
// its definition. Code built on top has one source. The compilers may not contract operations (nvcc -fmad=false, g++
// -ffp-contract=off), so both give the same bits.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define STEPWATCH_DEVICE __device__ __forceinline__
#define STEPWATCH_BOTH __host__ __device__ __forceinline__
#define STEPWATCH_UNROLL _Pragma("unroll")
#define STEPWATCH_NO_UNROLL _Pragma("unroll 1")
#else
#include <bit>
#include <cmath>

#include "kernels/formats.h"
#define STEPWATCH_DEVICE inline
#define STEPWATCH_BOTH inline
#define STEPWATCH_UNROLL
#define STEPWATCH_NO_UNROLL
#endif

namespace stepwatch::kernels::cuda {

// The 16 bytes of one load of a thread.
struct Vector {
  uint32_t words[4];
};

// Minimum and maximum of two pairs of 16-bit floats by their codes alone. A NaN, whose magnitude is above kNanAbove,
// loses against a number, and -0 is smaller than 0. For devices without instructions for pairs.
template <uint32_t kNanAbove>
struct CodePairs {
  static STEPWATCH_BOTH int32_t Key(uint32_t code) {
    return (code & 0x8000) != 0 ? -static_cast<int32_t>(code & 0x7fff) - 1 : static_cast<int32_t>(code);
  }
  static STEPWATCH_BOTH uint32_t Pick(uint32_t x, uint32_t y, bool larger) {
    if ((x & 0x7fff) > kNanAbove) return y;
    if ((y & 0x7fff) > kNanAbove) return x;
    return (Key(x) < Key(y)) == larger ? y : x;
  }
  static STEPWATCH_BOTH uint32_t PickEach(uint32_t x, uint32_t y, bool larger) {
    return Pick(x & 0xffff, y & 0xffff, larger) | Pick(x >> 16, y >> 16, larger) << 16;
  }
  static STEPWATCH_BOTH uint32_t Smaller(uint32_t x, uint32_t y) { return PickEach(x, y, false); }
  static STEPWATCH_BOTH uint32_t Larger(uint32_t x, uint32_t y) { return PickEach(x, y, true); }
};

#if defined(__CUDACC__)

STEPWATCH_DEVICE float AsFloat(uint32_t bits) {
  return __uint_as_float(bits);
}
STEPWATCH_DEVICE uint32_t AsBits(float x) {
  return __float_as_uint(x);
}
STEPWATCH_DEVICE double AsDouble(uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
STEPWATCH_DEVICE uint64_t AsBits(double x) {
  return static_cast<uint64_t>(__double_as_longlong(x));
}
STEPWATCH_DEVICE double MultiplyAdd(double x, double y, double sum) {
  return __fma_rn(x, y, sum);
}
STEPWATCH_DEVICE float MultiplyAdd(float x, float y, float sum) {
  return __fmaf_rn(x, y, sum);
}
STEPWATCH_DEVICE double Magnitude(double x) {
  return fabs(x);
}
STEPWATCH_DEVICE float Magnitude(float x) {
  return fabsf(x);
}
// The smaller, the larger of two numbers; a NaN loses against a number.
STEPWATCH_DEVICE float Smaller(float x, float y) {
  return fminf(x, y);
}
STEPWATCH_DEVICE float Larger(float x, float y) {
  return fmaxf(x, y);
}
STEPWATCH_DEVICE double Smaller(double x, double y) {
  return fmin(x, y);
}
STEPWATCH_DEVICE double Larger(double x, double y) {
  return fmax(x, y);
}
STEPWATCH_DEVICE uint32_t CountBits(uint32_t bits) {
  return static_cast<uint32_t>(__popc(bits));
}
STEPWATCH_DEVICE float HalfToFloat(uint32_t code) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<unsigned short>(code)));
  return x;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
using HalfPairs = CodePairs<0x7c00>;
using BrainPairs = CodePairs<0x7f80>;
#else
// Minimum and maximum of two pairs of 16-bit floats; a NaN loses against a number.
struct HalfPairs {
  static STEPWATCH_DEVICE uint32_t Smaller(uint32_t x, uint32_t y) {
    uint32_t z;
    asm("min.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
  }
  static STEPWATCH_DEVICE uint32_t Larger(uint32_t x, uint32_t y) {
    uint32_t z;
    asm("max.f16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
  }
};
struct BrainPairs {
  static STEPWATCH_DEVICE uint32_t Smaller(uint32_t x, uint32_t y) {
    uint32_t z;
    asm("min.bf16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
  }
  static STEPWATCH_DEVICE uint32_t Larger(uint32_t x, uint32_t y) {
    uint32_t z;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
    return z;
  }
};
#endif

// Streaming load, evicted first, so that the training's lines stay in the L2.
STEPWATCH_DEVICE Vector LoadVector(const char* address) {
  const uint4 x = __ldcs(reinterpret_cast<const uint4*>(address));
  return {{x.x, x.y, x.z, x.w}};
}
STEPWATCH_DEVICE uint64_t Load8(const char* address) {
  return __ldcs(reinterpret_cast<const unsigned long long*>(address));
}
STEPWATCH_DEVICE uint32_t Load4(const char* address) {
  return __ldcs(reinterpret_cast<const unsigned int*>(address));
}
STEPWATCH_DEVICE uint32_t Load2(const char* address) {
  return __ldcs(reinterpret_cast<const unsigned short*>(address));
}
STEPWATCH_DEVICE uint32_t Load1(const char* address) {
  return __ldcs(reinterpret_cast<const unsigned char*>(address));
}

#else

inline float AsFloat(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline uint32_t AsBits(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline double AsDouble(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
inline uint64_t AsBits(double x) {
  return std::bit_cast<uint64_t>(x);
}
inline double MultiplyAdd(double x, double y, double sum) {
  return std::fma(x, y, sum);
}
inline float MultiplyAdd(float x, float y, float sum) {
  return std::fma(x, y, sum);
}
inline double Magnitude(double x) {
  return std::fabs(x);
}
inline float Magnitude(float x) {
  return std::fabs(x);
}
inline float Smaller(float x, float y) {
  return std::fmin(x, y);
}
inline float Larger(float x, float y) {
  return std::fmax(x, y);
}
inline double Smaller(double x, double y) {
  return std::fmin(x, y);
}
inline double Larger(double x, double y) {
  return std::fmax(x, y);
}
inline uint32_t CountBits(uint32_t bits) {
  return static_cast<uint32_t>(std::popcount(bits));
}
inline float HalfToFloat(uint32_t code) {
  return static_cast<float>(DecodeFloat16(static_cast<uint16_t>(code)));
}

template <double (*kDecode)(uint16_t)>
struct DecodedPairs {
  static uint16_t Pick(uint16_t x, uint16_t y, bool larger) {
    const double a = kDecode(x), b = kDecode(y);
    if (std::isnan(a)) return y;
    if (std::isnan(b)) return x;
    return (larger ? a > b : a < b) ? x : y;
  }
  static uint32_t PickEach(uint32_t x, uint32_t y, bool larger) {
    const uint32_t low = Pick(static_cast<uint16_t>(x), static_cast<uint16_t>(y), larger);
    return low | static_cast<uint32_t>(Pick(static_cast<uint16_t>(x >> 16), static_cast<uint16_t>(y >> 16), larger))
                     << 16;
  }
  static uint32_t Smaller(uint32_t x, uint32_t y) { return PickEach(x, y, false); }
  static uint32_t Larger(uint32_t x, uint32_t y) { return PickEach(x, y, true); }
};
using HalfPairs = DecodedPairs<DecodeFloat16>;
using BrainPairs = DecodedPairs<DecodeBFloat16>;

template <class T>
T LoadBytes(const char* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}
inline Vector LoadVector(const char* address) {
  return LoadBytes<Vector>(address);
}
inline uint64_t Load8(const char* address) {
  return LoadBytes<uint64_t>(address);
}
inline uint32_t Load4(const char* address) {
  return LoadBytes<uint32_t>(address);
}
inline uint32_t Load2(const char* address) {
  return LoadBytes<uint16_t>(address);
}
inline uint32_t Load1(const char* address) {
  return LoadBytes<uint8_t>(address);
}

#endif

STEPWATCH_DEVICE bool IsFinite(double x) {
  return (AsBits(x) >> 52 & 0x7ff) != 0x7ff;
}

}  // namespace stepwatch::kernels::cuda
