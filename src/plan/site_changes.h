// Differences in the hooked sites of two plans.
#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/plan.h"

namespace stepwatch::plan {

struct SiteChanges {
  SiteKind kind = SiteKind::kActv;
  int64_t added = 0;
  int64_t removed = 0;
  int64_t kept = 0;  // possibly with other statistics, or another group's frequency
};

// Kinds in their order, without those that both plans leave out. A null plan has no sites. A site is the same in both
// if kind, port, chunk and name are: the plans may be of two states of a model that has grown.
std::vector<SiteChanges> SiteChangesOf(const Plan* was, const Plan* now);

}  // namespace stepwatch::plan
