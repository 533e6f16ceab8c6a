// The time of the last stored line of each rank: a control socket repeats lines, and those up to this time are not new.
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace stepwatch::operations {

class KnownUntil {
 public:
  void Note(const std::string& run, int64_t rank, double t) {
    double& reported = until_[{run, rank}];
    reported = std::max(reported, t);
  }
  // 0: no line of it is known.
  double Until(const std::string& run, int64_t rank) const {
    const auto found = until_.find({run, rank});
    return found == until_.end() ? 0 : found->second;
  }
  // Forgets all other runs: they are over, and no control socket repeats their lines.
  void KeepOnly(const std::set<std::string>& runs) {
    std::erase_if(until_, [&](const auto& each) { return !runs.contains(each.first.first); });
  }
  size_t size() const { return until_.size(); }

 private:
  std::map<std::pair<std::string, int64_t>, double> until_;
};

}  // namespace stepwatch::operations
