// The state of the CUDA driver, found without initializing it; needs no CUDA toolkit.
#pragma once

#include <optional>
#include <string>

namespace stepwatch::kernels::cuda {

// The number of devices; nullopt if the process has not initialized the driver, or not loaded it. Any thread.
std::optional<int> DevicesInUse();

// True if the runtime rejects this driver. A driver serves every runtime of its own major version and of earlier ones.
// Versions are encoded as in CUDA: 12040 is 12.4; 0: no driver.
bool IsTooOld(int driver_version, int runtime_version);

// Explains why there is no device. For a driver that is too old, names its version and the one required.
std::string WhyNoDevice(int driver_version, int runtime_version);

}  // namespace stepwatch::kernels::cuda
