// A process as seen from this one.
#pragma once

#include <cstdint>
#include <optional>

#include "src/base/process_identity.h"

namespace stepwatch::operations {

// The pid in this namespace, and the start time: pids are reused, and a pid alone identifies no process.
struct ProcessRef {
  int pid = 0;
  uint64_t started = 0;  // see base::ProcessIdentity

  bool operator==(const ProcessRef&) const = default;
};

// Empty: it is gone, even if another process has its pid now. A zombie still exists, with the state Z.
inline std::optional<char> StateOf(const ProcessRef& process, base::FileSystem& files) {
  const std::optional<base::ProcessStat> found = base::StatOf(process.pid, files);
  if (!found || found->started != process.started) return std::nullopt;
  return found->state;
}

// True if it no longer runs any code, and never will again.
inline bool IsGone(const ProcessRef& process, base::FileSystem& files) {
  const std::optional<char> state = StateOf(process, files);
  return !state || *state == 'Z' || *state == 'X';
}

}  // namespace stepwatch::operations
