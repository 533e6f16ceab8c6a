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
  base::ProcessIdentity process;   // from this machine's /proc; pid 0: it has none here, as in another container
  base::ProcessIdentity own = {};  // its own report; pid 0: not reported
  double seen_t = 0;               // when it was watched last
  double reported_t = 0;           // of its last line
  std::optional<uid_t> uid = {};   // its user, from the kernel's peer credentials; absent from data of earlier releases
};

// Different for any two processes.
std::string KeyOf(const KnownProcess& process);

}  // namespace stepwatch::operations
