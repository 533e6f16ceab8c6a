// The state of this host at one moment, as values: pressure, memory kills, disks.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/file_system.h"

namespace stepwatch::operations {

struct DiskSpace {
  double free_bytes = 0;  // for users without privileges
  double size_bytes = 0;
};
// Absent: there is no such directory. May block for as long as the mount hangs.
using LookAtDisk = std::function<std::optional<DiskSpace>(const std::string& path)>;
std::optional<DiskSpace> DiskSpaceOf(const std::string& path);

struct HostSample {
  // Shares of the last 10 s, 0 to 1, in which some tasks, or all, waited, by resource (cpu, memory, io) and kind (some,
  // full).
  std::map<std::pair<std::string, std::string>, double> pressure;
  std::optional<double> oom_kills;  // since the host was started
};

// Reads /proc alone, so it does not block.
HostSample ReadHost(base::FileSystem& files = base::FileSystem::Real());

// The avg10 of a kind in the text of a file of /proc/pressure, as a share.
std::optional<double> PressureIn(std::string_view text, std::string_view kind);

}  // namespace stepwatch::operations
