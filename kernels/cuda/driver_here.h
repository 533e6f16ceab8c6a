// What the CUDA runtime says of this machine's driver; asked without making it ready.
#pragma once

#include <string>

namespace stepwatch::kernels::cuda {

// Whether there is a driver that the runtime of this build refuses.
bool IsDriverTooOld();

// Why there is no device, as no_device.h says it.
std::string WhyNoDeviceHere();

}  // namespace stepwatch::kernels::cuda
