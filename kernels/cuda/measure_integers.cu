// Integers and bool; and the sign agreement of two tensors, which only needs integers.
#include "kernels/cuda/device_block.cuh"
#include "kernels/cuda/kernel_addresses.h"

namespace stepwatch::kernels::cuda {
namespace {

STEPWATCH_KERNEL(Integer64, MeasureTensors<IntegerFormat<8>>)
STEPWATCH_KERNEL(Integer32, MeasureTensors<IntegerFormat<4>>)
STEPWATCH_KERNEL(Integer16, MeasureTensors<IntegerFormat<2>>)
STEPWATCH_KERNEL(Integer8, MeasureTensors<IntegerFormat<1>>)
STEPWATCH_KERNEL(Signs, CompareSigns)

// Runs after all work of the step on the same stream; the results are in host memory before the host sees `done`.
__global__ void AdvanceStep(uint64_t* step, uint64_t* done) {
  *step += 1;
  __threadfence_system();
  *const_cast<volatile uint64_t*>(done) = *step;
}

}  // namespace

const void* const kMeasureInteger64 = reinterpret_cast<const void*>(&Integer64);
const void* const kMeasureInteger32 = reinterpret_cast<const void*>(&Integer32);
const void* const kMeasureInteger16 = reinterpret_cast<const void*>(&Integer16);
const void* const kMeasureInteger8 = reinterpret_cast<const void*>(&Integer8);
const void* const kCompareSigns = reinterpret_cast<const void*>(&Signs);
const void* const kAdvanceStep = reinterpret_cast<const void*>(&AdvanceStep);

}  // namespace stepwatch::kernels::cuda
