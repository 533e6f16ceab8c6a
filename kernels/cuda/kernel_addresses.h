// Host addresses of the kernels, by which the CUDA runtime launches them.
#pragma once

#include "kernels/cuda/launch.h"

namespace stepwatch::kernels::cuda {

// Indexed by KernelId. Each .cu file defines its own.
extern const void* const kMeasureFloat64;
extern const void* const kMeasureFloat32;
extern const void* const kMeasureFloat16;
extern const void* const kMeasureBFloat16;
extern const void* const kMeasureFloat8E4M3;
extern const void* const kMeasureFloat8E5M2;
extern const void* const kMeasureInteger64;
extern const void* const kMeasureInteger32;
extern const void* const kMeasureInteger16;
extern const void* const kMeasureInteger8;
extern const void* const kMeasureFloat32Tree;
extern const void* const kMeasureFloat16Tree;
extern const void* const kMeasureBFloat16Tree;
extern const void* const kMeasureFloat8E4M3Tree;
extern const void* const kMeasureFloat8E5M2Tree;
extern const void* const kCompareSigns;
// (uint64_t* step, uint64_t* done): step += 1, then done = step, by one thread.
extern const void* const kAdvanceStep;

}  // namespace stepwatch::kernels::cuda
