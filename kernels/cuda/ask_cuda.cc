#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_in_use.h"
#include "kernels/cuda_in_use.h"
#include "kernels/device_engine.h"

namespace stepwatch::kernels {
namespace {

constexpr const char* kNoDevice = "there is no CUDA device, or no driver for it";

}  // namespace

CudaReport AskCuda() {
  CudaReport report;
  report.built = true;
  report.code = STEPWATCH_CUDA_CODE;
  if (cudaGetDeviceCount(&report.devices) != cudaSuccess) {
    (void)cudaGetLastError();
    report.devices = 0;
  }
  if (report.devices == 0) report.reason = kNoDevice;
  return report;
}

CudaReport AskCudaInUse() {
  const std::optional<int> devices = cuda::DevicesInUse();
  if (!devices)
    return {
        true, 0,
        "this process has not used CUDA yet, and a question does not make it; `stepwatch doctor` counts the devices "
        "of its machine",
        STEPWATCH_CUDA_CODE};
  return {true, *devices, *devices == 0 ? kNoDevice : "", STEPWATCH_CUDA_CODE};
}

}  // namespace stepwatch::kernels
