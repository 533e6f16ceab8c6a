#include "src/plan/site_changes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

namespace stepwatch::plan {
namespace {

using SiteKey = std::tuple<SiteKind, Port, int, std::string_view>;

std::vector<SiteKey> KeysOf(const Plan* plan) {
  std::vector<SiteKey> keys;
  if (plan == nullptr) return keys;
  keys.reserve(plan->layout.sites.size());
  for (const PlannedSite& site : plan->layout.sites) keys.emplace_back(site.kind, site.port, site.chunk, site.name);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

std::vector<SiteChanges> SiteChangesOf(const Plan* was, const Plan* now) {
  const std::vector<SiteKey> old_keys = KeysOf(was), new_keys = KeysOf(now);
  std::array<SiteChanges, kSiteKindCount> changes{};
  const auto changes_of = [&](const SiteKey& key) -> SiteChanges& {
    return changes[static_cast<size_t>(std::get<SiteKind>(key))];
  };
  auto old_key = old_keys.begin(), new_key = new_keys.begin();
  while (old_key != old_keys.end() || new_key != new_keys.end()) {
    if (new_key == new_keys.end() || (old_key != old_keys.end() && *old_key < *new_key)) {
      ++changes_of(*old_key++).removed;
    } else if (old_key == old_keys.end() || *new_key < *old_key) {
      ++changes_of(*new_key++).added;
    } else {
      ++changes_of(*old_key++).kept;
      ++new_key;
    }
  }
  std::vector<SiteChanges> found;
  for (size_t kind = 0; kind < changes.size(); ++kind) {
    changes[kind].kind = static_cast<SiteKind>(kind);
    if (changes[kind].added + changes[kind].removed + changes[kind].kept > 0) found.push_back(changes[kind]);
  }
  return found;
}

}  // namespace stepwatch::plan
