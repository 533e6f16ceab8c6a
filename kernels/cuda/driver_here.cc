#include "kernels/cuda/driver_here.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/driver_status.h"

namespace stepwatch::kernels::cuda {
namespace {

// 0, as for a missing driver, if the query fails.
int VersionFrom(cudaError_t (*query)(int*)) {
  int version = 0;
  if (query(&version) == cudaSuccess) return version;
  (void)cudaGetLastError();
  return 0;
}

}  // namespace

bool IsDriverTooOld() {
  return IsTooOld(VersionFrom(cudaDriverGetVersion), VersionFrom(cudaRuntimeGetVersion));
}

std::string WhyNoDeviceHere() {
  return WhyNoDevice(VersionFrom(cudaDriverGetVersion), VersionFrom(cudaRuntimeGetVersion));
}

}  // namespace stepwatch::kernels::cuda
