// Finds the sites of one plan by a plan-independent key, for observations that outlive their plan.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::device {

// Identifies a site across plans. Owners are positions, which shift when the model grows, so the name is included.
struct SiteKey {
  SiteKind kind = SiteKind::kActv;
  Port port = Port::kNone;
  uint32_t owner = 0;
  uint64_t name_hash = 0;  // of chunk and name

  bool operator==(const SiteKey&) const = default;
};
SiteKey KeyOf(const PlannedSite& site) noexcept;

class SiteLookup {
 public:
  explicit SiteLookup(const RecordLayout& layout);
  // nullopt: the plan does not watch it.
  std::optional<SiteId> Find(const SiteKey& key) const noexcept;

 private:
  struct Entry {
    SiteKey key;
    SiteId site;
  };
  std::vector<Entry> entries_;  // by key
};

}  // namespace stepwatch::device
