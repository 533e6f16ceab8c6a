#include "kernels/cuda/driver_here.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/driver_status.h"

namespace stepwatch::kernels::cuda {
namespace {

// 0, as for a missing driver, if the query fails.
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
