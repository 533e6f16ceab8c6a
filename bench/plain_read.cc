#include "bench/plain_read.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstring>

namespace stepwatch::bench {
namespace {

constexpr size_t kLine = 64;

template <bool kPrefetch>
void Prefetch([[maybe_unused]] const char* at, [[maybe_unused]] size_t bytes, [[maybe_unused]] size_t ahead) {
  if constexpr (kPrefetch)
    for (size_t line = 0; line < bytes; line += kLine) __builtin_prefetch(at + ahead + line);
}

// For every processor: 16 bytes at a time.
template <bool kPrefetch>
uint64_t Read128(const char* data, size_t bytes, size_t ahead) {
  typedef uint64_t Words __attribute__((vector_size(16), aligned(1)));
  Words ors[8] = {};
  for (size_t i = 0; i < bytes; i += 128) {
    Prefetch<kPrefetch>(data + i, 128, ahead);
    for (size_t k = 0; k < 8; ++k) ors[k] |= *reinterpret_cast<const Words*>(data + i + 16 * k);
  }
  for (size_t k = 1; k < 8; ++k) ors[0] |= ors[k];
  return ors[0][0] | ors[0][1];
}

#if defined(__x86_64__)

template <bool kPrefetch>
__attribute__((target("avx2"))) uint64_t Read256(const char* data, size_t bytes, size_t ahead) {
  __m256i ors[8];
  for (__m256i& word : ors) word = _mm256_setzero_si256();
  for (size_t i = 0; i < bytes; i += 256) {
    Prefetch<kPrefetch>(data + i, 256, ahead);
    for (size_t k = 0; k < 8; ++k)
      ors[k] = _mm256_or_si256(ors[k], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + i + 32 * k)));
  }
  for (size_t k = 1; k < 8; ++k) ors[0] = _mm256_or_si256(ors[0], ors[k]);
  uint64_t words[4];
  std::memcpy(words, ors, sizeof words);
  return words[0] | words[1] | words[2] | words[3];
}

template <bool kPrefetch>
__attribute__((target("avx512f"))) uint64_t Read512(const char* data, size_t bytes, size_t ahead) {
  __m512i ors[8];
  for (__m512i& word : ors) word = _mm512_setzero_si512();
  for (size_t i = 0; i < bytes; i += 512) {
    Prefetch<kPrefetch>(data + i, 512, ahead);
    for (size_t k = 0; k < 8; ++k) ors[k] = _mm512_or_si512(ors[k], _mm512_loadu_si512(data + i + 64 * k));
  }
  for (size_t k = 1; k < 8; ++k) ors[0] = _mm512_or_si512(ors[0], ors[k]);
  uint64_t words[8];
  std::memcpy(words, ors, sizeof words);
  return words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7];
}

#endif

using ReadLoop = uint64_t (*)(const char* data, size_t bytes, size_t ahead);
struct Width {
  const char* name;
  ReadLoop plain;
  ReadLoop prefetching;
};

const Width& WidestHere() {
#if defined(__x86_64__)
  static constexpr Width k512{"512 bit", Read512<false>, Read512<true>}, k256{"256 bit", Read256<false>, Read256<true>};
  if (__builtin_cpu_supports("avx512f")) return k512;
  if (__builtin_cpu_supports("avx2")) return k256;
#endif
  static constexpr Width k128{"128 bit", Read128<false>, Read128<true>};
  return k128;
}

}  // namespace

uint64_t PlainRead(const void* data, size_t bytes, size_t prefetch) {
  const Width& width = WidestHere();
  return (prefetch == 0 ? width.plain : width.prefetching)(static_cast<const char*>(data), bytes, prefetch);
}

const char* PlainReadWidth() {
  return WidestHere().name;
}

}  // namespace stepwatch::bench
