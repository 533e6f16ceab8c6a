#include "operations/discovery/run_owners.h"

#include <algorithm>

#include "operations/trace/parse_line.h"

namespace stepwatch::operations {
namespace {

constexpr int kNamesMax = 8;

}  // namespace

std::string RunOwners::NameFor(const std::string& run, uid_t uid, double now) {
  if (run.empty()) return run;
  const std::string ending = "~uid" + std::to_string(uid);
  std::string name = run;
  for (int i = 0; i < kNamesMax; ++i) {
    const auto found = runs_.find(name);
    if (found == runs_.end()) {
      MakeRoomFor(uid);
      ++counts_[uid];
      runs_[name] = {uid, now};
      return name;
    }
    Owned& owned = found->second;
    const bool is_free = now - owned.named_t > kSecondsMax;
    if (owned.uid == uid || is_free) {
      if (owned.uid != uid) {
        if (--counts_[owned.uid] == 0) counts_.erase(owned.uid);
        ++counts_[uid];
      }
      owned = {uid, now};
      return name;
    }
    name.resize(std::min(name.size(), kRunBytesMax - ending.size()));
    name += ending;
  }
  return "";
}

void RunOwners::MakeRoomFor(uid_t uid) {
  const auto count = counts_.find(uid);
  if (count == counts_.end() || count->second < kRunsMax) return;
  auto oldest = runs_.end();
  for (auto each = runs_.begin(); each != runs_.end(); ++each)
    if (each->second.uid == uid && (oldest == runs_.end() || each->second.named_t < oldest->second.named_t))
      oldest = each;
  runs_.erase(oldest);
  --count->second;
}

}  // namespace stepwatch::operations
