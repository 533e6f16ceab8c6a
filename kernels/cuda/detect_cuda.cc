#include <cuda_runtime_api.h>

#include "kernels/cuda/driver_here.h"
#include "kernels/cuda/driver_status.h"
#include "kernels/device_engine.h"

namespace stepwatch::kernels {
namespace {

// A driver that the runtime rejects counts as having no devices.
CudaReport ReportOf(int devices) {
  const bool usable = devices > 0 && !cuda::IsDriverTooOld();
  return {true, usable ? devices : 0, usable ? "" : cuda::WhyNoDeviceHere(), STEPWATCH_CUDA_CODE};
}

}  // namespace

CudaReport DetectCuda() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    (void)cudaGetLastError();
    devices = 0;
  }
  return ReportOf(devices);
}

CudaReport DetectCudaInUse() {
  const std::optional<int> devices = cuda::DevicesInUse();
  if (!devices)
    return {
        true, 0,
        "this process has not used CUDA yet, and a query does not initialize it; `stepwatch doctor` counts the devices "
        "of the machine",
        STEPWATCH_CUDA_CODE};
  return ReportOf(*devices);
}

}  // namespace stepwatch::kernels
