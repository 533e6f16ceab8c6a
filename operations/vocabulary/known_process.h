// A process of a run, as it is stored across restarts of stepwatchd.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/process_identity.h"

namespace stepwatch::operations {

struct KnownProcess {
  std::string run;
  int64_t rank = 0;
  base::ProcessIdentity process;   // as this machine's /proc has it; pid 0: it has none here, as in another container
  base::ProcessIdentity own = {};  // as it knows itself; pid 0: not reported
  double seen_t = 0;               // when it was watched last
  double reported_t = 0;           // of the last line of it
  std::optional<uid_t> uid = {};   // whose it is, by the kernel's word; an earlier release has not kept it
};

// Different for any two processes.
std::string KeyOf(const KnownProcess& process);

}  // namespace stepwatch::operations
