// What the memory of this host means for one run. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "operations/vocabulary/line.h"
#include "operations/witness/cgroup_memory.h"
#include "operations/witness/host_memory.h"
#include "operations/witness/oom_counter.h"

namespace stepwatch::operations {

class HostLines {
 public:
  // Of the cgroups of the run's processes, by their directories: see OomCounter. Nothing: there is nothing new to tell,
  // and nobody has to know that.
  std::optional<HostEvent> OnMemory(const std::string& host, const HostMemory& memory,
                                    const std::map<std::string, CgroupMemory>& cgroups, bool tells_same = false);

 private:
  OomCounter counter_;
  std::optional<HostEvent> told_;
};

}  // namespace stepwatch::operations
