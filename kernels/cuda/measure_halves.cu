// fp16 and bf16, sums in fp64.
#include "kernels/cuda/device_block.cuh"
#include "kernels/cuda/kernel_addresses.h"

namespace stepwatch::kernels::cuda {
namespace {

STEPWATCH_KERNEL(Float16, MeasureTensors<PairFormat<Float16Codes, false>>)
STEPWATCH_KERNEL(BFloat16, MeasureTensors<PairFormat<BFloat16Codes, false>>)

}  // namespace

const void* const kMeasureFloat16 = reinterpret_cast<const void*>(&Float16);
const void* const kMeasureBFloat16 = reinterpret_cast<const void*>(&BFloat16);

}  // namespace stepwatch::kernels::cuda
