// Sums of each 16 bytes by a tree of fp32 additions, for parts where fp64 runs at a small fraction of the fp32 rate.
#include "kernels/cuda/device_block.cuh"
#include "kernels/cuda/kernel_addresses.h"

namespace stepwatch::kernels::cuda {
namespace {

STEPWATCH_KERNEL(Float32, MeasureTensorsByTrees<Float32Format<true>, Float32Format<false>>)
STEPWATCH_KERNEL(Float16, MeasureTensorsByTrees<PairFormat<Float16Codes, true>, PairFormat<Float16Codes, false>>)
STEPWATCH_KERNEL(BFloat16, MeasureTensorsByTrees<PairFormat<BFloat16Codes, true>, PairFormat<BFloat16Codes, false>>)
STEPWATCH_KERNEL(Float8E4M3,
                 MeasureTensorsByTrees<PairFormat<Float8E4M3Codes, true>, PairFormat<Float8E4M3Codes, false>>)
STEPWATCH_KERNEL(Float8E5M2,
                 MeasureTensorsByTrees<PairFormat<Float8E5M2Codes, true>, PairFormat<Float8E5M2Codes, false>>)

}  // namespace

const void* const kMeasureFloat32Tree = reinterpret_cast<const void*>(&Float32);
const void* const kMeasureFloat16Tree = reinterpret_cast<const void*>(&Float16);
const void* const kMeasureBFloat16Tree = reinterpret_cast<const void*>(&BFloat16);
const void* const kMeasureFloat8E4M3Tree = reinterpret_cast<const void*>(&Float8E4M3);
const void* const kMeasureFloat8E5M2Tree = reinterpret_cast<const void*>(&Float8E5M2);

}  // namespace stepwatch::kernels::cuda
