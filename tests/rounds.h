// How often tests repeat what they do at random, in simulated time or for each point of failure. Normal builds do all
// of it. Code under a sanitizer is up to twenty times as slow, and its faults show in the first rounds as in the last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace stepwatch::testing {

// GCC's macros: the presets of the sanitizers use it. Clang's builds, of the fuzzers among them, count as normal.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// Rounds, sizes, or what must be counted in so many rounds: `whole`, or this part of it under a sanitizer, at least 1.
template <class Number>
constexpr Number Rounds(Number whole, std::type_identity_t<Number> part = 8) {
  return kIsSanitized ? std::max<Number>(1, whole / part) : whole;
}

// The step from one point of failure to the next: 1, or `n` under a sanitizer. Where each of many calls fails with each
// of many errors, the loop over errors begins at the number of the call % Every(n): so each call fails with some of
// them.
constexpr int Every(int n) {
  return kIsSanitized ? n : 1;
}

// The same among so many points: at most their number, so that no such beginning misses them all.
constexpr size_t Every(size_t n, size_t points) {
  return kIsSanitized ? std::max<size_t>(1, std::min(n, points)) : 1;
}

}  // namespace stepwatch::testing
