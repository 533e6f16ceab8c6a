// The seed of the random tests: 1, or the value of STEPWATCH_SEED, so that runs of the suite are repeatable.
// STEPWATCH_SEED=random draws one and prints it. `./run soak` uses a new seed in every round.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace stepwatch::test {

inline uint64_t DrawSeed() {
  const uint64_t seed = std::random_device()();
  std::fprintf(stderr, "repeat with STEPWATCH_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

inline uint64_t RandomSeed() {
  const char* given = std::getenv("STEPWATCH_SEED");
  if (given == nullptr) return 1;
  if (std::strcmp(given, "random") != 0) return std::strtoull(given, nullptr, 10);
  static const uint64_t drawn = DrawSeed();
  return drawn;
}

}  // namespace stepwatch::test
