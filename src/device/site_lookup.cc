#include "src/device/site_lookup.h"

#include <algorithm>
#include <tuple>

namespace stepwatch::device {
namespace {

bool Before(const SiteKey& a, const SiteKey& b) {
  return std::tie(a.kind, a.owner, a.port) < std::tie(b.kind, b.owner, b.port);
}

}  // namespace

// FNV-1a: only the names of one position in two versions of a model are ever compared.
SiteKey KeyOf(const PlannedSite& site) noexcept {
  uint64_t hash = 0xcbf29ce484222325 ^ static_cast<uint64_t>(site.chunk);
  for (const char c : site.name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return {site.kind, site.port, site.owner, hash};
}

SiteLookup::SiteLookup(const RecordLayout& layout) {
  entries_.reserve(layout.sites.size());
  for (size_t i = 0; i < layout.sites.size(); ++i) entries_.push_back({KeyOf(layout.sites[i]), static_cast<SiteId>(i)});
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return Before(a.key, b.key); });
}

std::optional<SiteId> SiteLookup::Find(const SiteKey& key) const noexcept {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const Entry& entry, const SiteKey& wanted) { return Before(entry.key, wanted); });
  if (found == entries_.end() || !(found->key == key)) return std::nullopt;
  return found->site;
}

}  // namespace stepwatch::device
