// The CUDA driver of this machine, as reported by the runtime; querying does not initialize it.
#pragma once

#include <string>

namespace stepwatch::kernels::cuda {

// True if the runtime of this build rejects the installed driver.
bool IsDriverTooOld();

// Explains why there is no device; see WhyNoDevice.
std::string WhyNoDeviceHere();

}  // namespace stepwatch::kernels::cuda
