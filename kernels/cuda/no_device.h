// The sentence for a machine on which the CUDA runtime finds no device.
#pragma once

#include <string>

namespace stepwatch::kernels::cuda {

// Whether the runtime refuses this driver. A driver serves every runtime of its own major version and of earlier ones.
// Versions are as CUDA gives them: 12040 is 12.4; 0: there is no driver.
bool IsTooOld(int driver_version, int runtime_version);

// Why there is no device: a driver that is too old is named with its version and the one that would do.
std::string WhyNoDevice(int driver_version, int runtime_version);

}  // namespace stepwatch::kernels::cuda
