// The launch that compares the signs of two tensors.
#pragma once

#include <optional>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packer.h"
#include "kernels/layout.h"

namespace stepwatch::kernels::cuda {

struct Pair {
  TensorView a, b;
  Layout layout_a, layout_b;  // in logical order, or both in memory order
  bool alike = false;         // of the same shape

  bool anything_to_read() const { return alike && a.numel > 0; }
};

// `a` and `b` have readable layouts. Error codes as in DeviceItem.
StatusCode MakePair(const TensorView& a, const TensorView& b, Pair* pair);

// Writes the pair into the launch's inline entries; the result goes to slot `result`. nullopt: too large for one
// launch.
std::optional<Segment> DescribePair(const Pair& pair, uint32_t result, Launch* launch);

}  // namespace stepwatch::kernels::cuda
