// fp64 and fp32, sums in fp64.
#include "kernels/cuda/device_block.cuh"
#include "kernels/cuda/kernel_addresses.h"

namespace stepwatch::kernels::cuda {
namespace {

STEPWATCH_KERNEL(Float64, MeasureTensors<Float64Format>)
STEPWATCH_KERNEL(Float32, MeasureTensors<Float32Format<false>>)

}  // namespace

const void* const kMeasureFloat64 = reinterpret_cast<const void*>(&Float64);
const void* const kMeasureFloat32 = reinterpret_cast<const void*>(&Float32);

}  // namespace stepwatch::kernels::cuda
