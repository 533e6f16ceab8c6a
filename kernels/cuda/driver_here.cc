#include "kernels/cuda/driver_here.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/no_device.h"

namespace stepwatch::kernels::cuda {
namespace {

// 0, which stands for none, where the runtime does not know.
int Ask(cudaError_t (*question)(int*)) {
  int version = 0;
  if (question(&version) == cudaSuccess) return version;
  (void)cudaGetLastError();
  return 0;
}

}  // namespace

bool IsDriverTooOld() {
  return IsTooOld(Ask(cudaDriverGetVersion), Ask(cudaRuntimeGetVersion));
}

std::string WhyNoDeviceHere() {
  return WhyNoDevice(Ask(cudaDriverGetVersion), Ask(cudaRuntimeGetVersion));
}

}  // namespace stepwatch::kernels::cuda
