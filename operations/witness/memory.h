// Memory of this host and of the cgroups of a run, and the processes killed for lack of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/file_system.h"

namespace stepwatch::operations {

struct HostMemory {
  std::optional<double> oom_kill;  // processes killed for memory since the host was started, in any cgroup
  std::optional<double> psi;       // share of the last 10 s in which a task waited for memory, in percent
};

// Unreadable values are absent: an old kernel has no pressure, a container may hide both.
HostMemory ReadHostMemory(base::FileSystem& files);

// The number behind `key` at the beginning of a line: "oom_kill 3".
std::optional<double> NumberOfKey(std::string_view text, std::string_view key);
// The avg10 of "some" in the text of /proc/pressure/memory.
std::optional<double> SomeAvg10(std::string_view text);

// The memory of the cgroup of a process: of a container, a job of Slurm, a systemd unit.
struct CgroupMemory {
  std::optional<double> oom_kill;  // processes of this cgroup killed for memory
  std::optional<double> current_bytes;
  std::optional<double> max_bytes;  // absent: no limit
};

// The memory directory of the process's cgroup, as this process sees it, with version 2 or 1 of cgroups. Empty: only in
// the root, or not visible from here. Call it while the process lives: afterwards its cgroup is unknown.
std::string CgroupDirectory(int pid, base::FileSystem& files);
// All values absent: the cgroup is gone.
CgroupMemory ReadCgroupMemory(const std::string& directory, base::FileSystem& files);

// Pure: from the texts of /proc/PID/cgroup and /proc/self/mountinfo.
std::string CgroupDirectoryIn(std::string_view cgroup, std::string_view mountinfo);

// Counts the processes of one run that were killed for memory on this host. Pure. Kills in the run's own cgroups count.
// Those of other jobs of the host do not, unless a cgroup of the run cannot be read: it may have been removed with the
// killed process, and then only the host's count is left.
class OomCounter {
 public:
  // `host`: that of the whole host. `cgroups`: that of each cgroup of the run by its directory; nullopt: unreadable. A
  // process without a cgroup of its own has the empty directory. Returns a count that never decreases and begins with
  // 0.
  double Count(std::optional<double> host, const std::map<std::string, std::optional<double>>& cgroups);
  // Those that were counted in cgroups of the run.
  double in_cgroups() const { return in_cgroups_; }

 private:
  double total_ = 0;
  double in_cgroups_ = 0;
  std::optional<double> host_;
  std::map<std::string, double> cgroups_;
};

}  // namespace stepwatch::operations
