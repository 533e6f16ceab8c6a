// Runs the source of the kernels on the CPU, thread by thread and block by block, over ordinary memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace stepwatch::kernels::cuda {

// Emulates a launch of `grid` blocks. `seed` decides in which order the blocks take their turns, from tile to tile; the
// results must not depend on it.
void Emulate(KernelId kernel, const Launch& launch, uint32_t grid, uint64_t seed);

}  // namespace stepwatch::kernels::cuda
