// fp8, sums in fp64.
#include "kernels/cuda/device_block.cuh"
#include "kernels/cuda/kernel_addresses.h"

namespace stepwatch::kernels::cuda {
namespace {

STEPWATCH_KERNEL(Float8E4M3, MeasureTensors<PairFormat<Float8E4M3Codes, false>>)
STEPWATCH_KERNEL(Float8E5M2, MeasureTensors<PairFormat<Float8E5M2Codes, false>>)

}  // namespace

const void* const kMeasureFloat8E4M3 = reinterpret_cast<const void*>(&Float8E4M3);
const void* const kMeasureFloat8E5M2 = reinterpret_cast<const void*>(&Float8E5M2);

}  // namespace stepwatch::kernels::cuda
