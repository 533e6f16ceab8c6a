// The memory of the cgroup that a process is in: of a container, a job of Slurm, a systemd unit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/file_system.h"

namespace stepwatch::operations {

struct CgroupMemory {
  std::optional<double> oom_kill;  // processes of this cgroup killed for memory
  std::optional<double> current_bytes;
  std::optional<double> max_bytes;  // absent: no limit
};

// Where the memory of the process's cgroup is told, as this process sees it, with version 2 or 1 of cgroups. Empty: in
// none but the root, or not to be seen from here. Ask while the process lives: afterwards nobody knows its cgroup.
std::string CgroupDirectory(int pid, base::FileSystem& files);
// Everything absent: the cgroup is gone.
CgroupMemory ReadCgroupMemory(const std::string& directory, base::FileSystem& files);

// Pure: of the texts of /proc/PID/cgroup and /proc/self/mountinfo.
std::string CgroupDirectoryIn(std::string_view cgroup, std::string_view mountinfo);

}  // namespace stepwatch::operations
