// How short of memory this host is.
#pragma once

#include <optional>
#include <string_view>

#include "src/base/file_system.h"

namespace stepwatch::operations {

struct HostMemory {
  std::optional<double> oom_kill;  // processes killed for memory since the host was started, in any cgroup
  std::optional<double> psi;       // share of the last 10 s in which some task waited for memory, in percent
};

// What cannot be read is absent: an old kernel has no pressure, a container may hide both.
HostMemory ReadHostMemory(base::FileSystem& files);

// The number behind `key` at the beginning of a line: "oom_kill 3".
std::optional<double> NumberOfKey(std::string_view text, std::string_view key);
// Of /proc/pressure/memory.
std::optional<double> SomeAvg10(std::string_view text);

}  // namespace stepwatch::operations
