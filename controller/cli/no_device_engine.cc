// The command line measures no tensor on a GPU. Linked before the libraries, this keeps the device code, megabytes for
// each architecture, out of the program; `doctor` names the engines of the training process.
#include "kernels/device_engine.h"

namespace stepwatch::kernels {

Result<std::unique_ptr<DeviceEngine>> CreateCudaEngine(const DeviceEngineOptions&) {
  return Status(StatusCode::kUnsupported, "the command line has no CUDA engine; a training process has");
}

}  // namespace stepwatch::kernels
