// Implements Driver over the CUDA runtime.
#pragma once

#include <memory>

#include "kernels/cuda/driver.h"
#include "stepwatch/status.h"

namespace stepwatch::kernels::cuda {

// kUnsupported: no such device, no CUDA driver, or no kernels for it; the message names the cause. Loads all kernels,
// so that loading never happens during a graph capture.
Result<std::unique_ptr<Driver>> CreateCudaDriver(int device);

}  // namespace stepwatch::kernels::cuda
