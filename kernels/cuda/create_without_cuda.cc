#include "kernels/device_engine.h"

namespace stepwatch::kernels {
namespace {

constexpr const char* kReason =
    "this build of Stepwatch has no CUDA engine; install the CUDA toolkit (nvcc) and configure again with "
    "-DSTEPWATCH_CUDA=ON";

}  // namespace

Result<std::unique_ptr<DeviceEngine>> CreateCudaEngine(const DeviceEngineOptions&) {
  return Status(StatusCode::kUnsupported, kReason);
}

CudaReport DetectCuda() {
  return {false, 0, kReason, ""};
}

CudaReport DetectCudaInUse() {
  return DetectCuda();
}

}  // namespace stepwatch::kernels
