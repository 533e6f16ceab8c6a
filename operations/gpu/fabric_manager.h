// The state of NVIDIA's Fabric Manager, without which GPUs on an NVSwitch cannot reach each other.
#pragma once

#include <optional>
#include <string>

#include "src/base/file_system.h"

namespace stepwatch::operations {

// Absent: systemd does not run here, or there is no such unit. Blocks for a few seconds at most; a readable
// `stop_fd` ends that.
std::optional<bool> IsFabricManagerActive(int stop_fd, base::FileSystem& files = base::FileSystem::Real(),
                                          const std::string& systemctl = "/usr/bin/systemctl");

}  // namespace stepwatch::operations
