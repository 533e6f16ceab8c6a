// Makes events of one run from the memory of this host. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "operations/vocabulary/line.h"
#include "operations/witness/memory.h"

namespace stepwatch::operations {

class HostLines {
 public:
  // `cgroups`: those of the run's processes, by their directories, see OomCounter. Empty without a change, unless
  // `reports_same`.
  std::optional<HostEvent> OnMemory(const std::string& host, const HostMemory& memory,
                                    const std::map<std::string, CgroupMemory>& cgroups, bool reports_same = false);

 private:
  OomCounter counter_;
  std::optional<HostEvent> reported_;
};

}  // namespace stepwatch::operations
