#include "operations/witness/oom_counter.h"

#include <algorithm>

namespace stepwatch::operations {

double OomCounter::Count(std::optional<double> host, const std::map<std::string, std::optional<double>>& cgroups) {
  const double of_host = host && host_ ? std::max(0.0, *host - *host_) : 0;
  double of_cgroups = 0;
  bool is_one_unread = cgroups.empty();
  for (const auto& [directory, count] : cgroups) {
    if (!count) {
      is_one_unread = true;
      continue;
    }
    const auto [last, is_new] = cgroups_.emplace(directory, *count);
    if (!is_new) of_cgroups += std::max(0.0, *count - last->second);
    last->second = *count;
  }
  std::erase_if(cgroups_, [&](const auto& each) { return cgroups.count(each.first) == 0; });
  if (host) host_ = host;
  in_cgroups_ += of_cgroups;
  total_ += is_one_unread ? std::max(of_host, of_cgroups) : of_cgroups;
  return total_;
}

}  // namespace stepwatch::operations
