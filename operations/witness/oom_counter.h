// How many processes of one run were killed for memory on this host. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace stepwatch::operations {

// Kills in the run's own cgroups count. Those of other jobs of the host do not, unless a cgroup of the run cannot be
// read: it may have been removed with the process that was killed, and then the host's count is all there is.
class OomCounter {
 public:
  // `host`: of the whole host. `cgroups`: of each cgroup of the run by its directory; nothing: it cannot be read. A
  // process in no cgroup of its own has the empty directory.
  // Returns a count that never falls and begins with 0.
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
