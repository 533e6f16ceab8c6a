// The vector loops over packed elements, compiled once for each instruction set from one text (loops.cc).
//
// They keep the canonical order of totals.h, so that each instruction set gives the bits of the reference.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/limits.h"
#include "kernels/totals.h"

namespace stepwatch::kernels {

// State of a chunk being read: its lanes, and the order-independent totals.
struct ChunkState {
  std::array<double, kLanes> sum{};
  std::array<double, kLanes> sum_of_squares{};
  Totals totals;  // without the sums
};

struct Loops {
  // Adds `count` packed elements at any address. A call continues the chunk of the previous call, whose count must have
  // been a multiple of kLanes.
  void (*feed)(const void* data, int64_t count, const Limits& limits, ChunkState* state);
  // Returns the sum of the products of the signs of two arrays.
  int64_t (*multiply_signs)(const void* a, const void* b, int64_t count);
};

struct Level {
  const char* name;  // "avx512", "avx2", "sse4", "neon", "scalar"
  std::array<Loops, static_cast<size_t>(DType::kOther)> loops;

  const Loops& For(DType dtype) const { return loops[static_cast<size_t>(dtype)]; }
};

// The levels that this processor supports, best first, never empty.
std::vector<const Level*> AvailableLevels();

}  // namespace stepwatch::kernels
