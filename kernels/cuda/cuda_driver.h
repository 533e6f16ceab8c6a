// The driver over the CUDA runtime.
#pragma once

#include <memory>

#include "kernels/cuda/driver.h"
#include "stepwatch/status.h"

namespace stepwatch::kernels::cuda {

// kUnsupported: no such device, no CUDA driver, or no kernels for it; the message says which. Loads all kernels, so
// that none is loaded inside of a graph capture.
Result<std::unique_ptr<Driver>> CreateCudaDriver(int device);

}  // namespace stepwatch::kernels::cuda
