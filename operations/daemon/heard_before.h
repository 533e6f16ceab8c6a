// Up to when each rank was heard by whoever looked for jobs before: what a control socket repeats of that time is not
// new. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace stepwatch::operations {

class HeardBefore {
 public:
  void Note(const std::string& run, int64_t rank, double t) {
    double& heard = until_[{run, rank}];
    heard = std::max(heard, t);
  }
  // 0: nobody has heard it.
  double Until(const std::string& run, int64_t rank) const {
    const auto found = until_.find({run, rank});
    return found == until_.end() ? 0 : found->second;
  }
  // Forgets all others: nobody will repeat what a run has said that is over.
  void KeepOnly(const std::set<std::string>& runs) {
    std::erase_if(until_, [&](const auto& each) { return !runs.contains(each.first.first); });
  }
  size_t size() const { return until_.size(); }

 private:
  std::map<std::pair<std::string, int64_t>, double> until_;
};

}  // namespace stepwatch::operations
