#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_driver.h"
#include "kernels/cuda/engine.h"
#include "kernels/device_engine.h"

namespace stepwatch::kernels {

Result<std::unique_ptr<DeviceEngine>> CreateCudaEngine(const DeviceEngineOptions& options) {
  auto driver = cuda::CreateCudaDriver(options.device);
  if (!driver.ok()) return driver.status();
  return cuda::Engine::Create(std::move(driver).value(), options);
}

CudaReport AskCuda() {
  CudaReport report;
  report.built = true;
  if (cudaGetDeviceCount(&report.devices) != cudaSuccess) {
    (void)cudaGetLastError();
    report.devices = 0;
  }
  if (report.devices == 0) report.reason = "there is no CUDA device, or no driver for it";
  return report;
}

}  // namespace stepwatch::kernels
