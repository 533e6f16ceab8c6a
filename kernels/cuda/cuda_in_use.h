// The devices of a process that has made the driver ready itself.
#pragma once

#include <optional>

namespace stepwatch::kernels::cuda {

// Nothing: the process has not made the driver ready, or not even loaded it. Changes nothing about that. Any thread.
std::optional<int> DevicesInUse();

}  // namespace stepwatch::kernels::cuda
