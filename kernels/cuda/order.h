// The summation order of the tiles of launch.h, as a SumOrder of the reference.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/reference.h"

namespace stepwatch::kernels::cuda {

// kElements: per vector. Lanes are numbered so that the reference's fold by halves matches the kernel's: the lane
// within a thread on top, then the thread within its warp, then the warp.
template <int kElements>
int LaneOf(int64_t index) {
  const int element = static_cast<int>(index % kElements);
  const int thread = static_cast<int>(index / kElements % kThreads);
  return element % 2 * kThreads + thread % 32 * kWarps + thread / 32;
}

inline reference::SumOrder OrderOf(DType dtype) {
  const int bytes = ElementSize(dtype);
  const auto lane_of = bytes == 8 ? LaneOf<2> : bytes == 4 ? LaneOf<4> : bytes == 2 ? LaneOf<8> : LaneOf<16>;
  return {kTileBytes / bytes, 2 * kThreads, lane_of, kGroupTiles};
}

}  // namespace stepwatch::kernels::cuda
