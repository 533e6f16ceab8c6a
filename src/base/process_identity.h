// Which process of which machine somebody was, for those who find its files later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/file_system.h"

namespace stepwatch::base {

// A process is told from every other one, of this machine and of others. Empty or 0: not known.
struct ProcessIdentity {
  std::string host;
  std::string boot_id;        // of the machine since it was started: two machines may have one name
  std::string pid_namespace;  // in which the pid holds: a container has its own
  int pid = 0;
  uint64_t started = 0;  // in clock ticks since the machine was started: pids are used again

  bool operator==(const ProcessIdentity&) const = default;
};

// Of a process of our pid namespace, as /proc/PID/stat says.
struct ProcessStat {
  char state = '?';      // one letter: R runs, S sleeps, D waits for a device, T is stopped, t traced, Z is dead
  uint64_t started = 0;  // see ProcessIdentity
};
// Nothing: there is no such process, or nobody can tell.
std::optional<ProcessStat> StatOf(int pid, FileSystem& files = FileSystem::Real());

ProcessIdentity ThisProcess(FileSystem& files = FileSystem::Real());

// Nothing: it cannot be known from here (another machine, another container, a machine that was started again under its
// name).
std::optional<bool> IsRunning(const ProcessIdentity& process, FileSystem& files = FileSystem::Real());

}  // namespace stepwatch::base
