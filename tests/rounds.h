// Numbers of random repetitions, in simulated time or for each point of failure. Normal builds run all of them. Code
// under a sanitizer is up to twenty times as slow, and its faults appear in the first rounds as well as in the last.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace stepwatch::testing {

// GCC's macros, since the sanitizer presets use GCC. Clang's builds, such as the fuzzers, count as normal.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// Returns `whole` rounds, or this part of them under a sanitizer, at least 1; also for sizes and expected counts.
template <class Number>
constexpr Number Rounds(Number whole, std::type_identity_t<Number> part = 8) {
  return kIsSanitized ? std::max<Number>(1, whole / part) : whole;
}

// Returns the step between points of failure: 1, or `n` under a sanitizer. If each of many calls fails with each of
// many errors, the loop over errors begins at (number of the call) % Every(n), so each call fails with some of them.
constexpr int Every(int n) {
  return kIsSanitized ? n : 1;
}

// The same, at most the number of points, so that no such start skips all of them.
constexpr size_t Every(size_t n, size_t points) {
  return kIsSanitized ? std::max<size_t>(1, std::min(n, points)) : 1;
}

}  // namespace stepwatch::testing
