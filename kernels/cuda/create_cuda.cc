// In a file of its own: a program that defines this function itself is linked without the device code.
#include "kernels/cuda/cuda_driver.h"
#include "kernels/cuda/engine.h"
#include "kernels/device_engine.h"

namespace stepwatch::kernels {

Result<std::unique_ptr<DeviceEngine>> CreateCudaEngine(const DeviceEngineOptions& options) {
  auto driver = cuda::CreateCudaDriver(options.device);
  if (!driver.ok()) return driver.status();
  return cuda::Engine::Create(std::move(driver).value(), options);
}

}  // namespace stepwatch::kernels
