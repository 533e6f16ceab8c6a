// Identifies a process across machines, for readers that find its files later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/file_system.h"

namespace stepwatch::base {

// Distinguishes a process from every other one, of this machine and of others. Empty or 0: unknown.
struct ProcessIdentity {
  std::string host;
  std::string boot_id;        // since the start of the machine: two machines may have one name
  std::string pid_namespace;  // the namespace of the pid: containers have their own
  int pid = 0;
  uint64_t started = 0;  // in clock ticks since the start of the machine: pids are reused

  bool operator==(const ProcessIdentity&) const = default;
};

// State of a process of the same pid namespace, from /proc/PID/stat.
struct ProcessStat {
  char state = '?';      // one letter: R runs, S sleeps, D waits for a device, T is stopped, t traced, Z is dead
  uint64_t started = 0;  // see ProcessIdentity
};
// nullopt: the process does not exist, or its state cannot be read.
std::optional<ProcessStat> StatOf(int pid, FileSystem& files = FileSystem::Real());

ProcessIdentity ThisProcess(FileSystem& files = FileSystem::Real());

// nullopt: cannot be determined from here (another machine, another container, a machine restarted under the same
// name).
std::optional<bool> IsRunning(const ProcessIdentity& process, FileSystem& files = FileSystem::Real());

}  // namespace stepwatch::base
