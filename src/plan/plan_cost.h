// Cost of a collected step of a plan: rows written, and bytes read.
#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/plan.h"
#include "stepwatch/site.h"

namespace stepwatch::plan {

struct PlanCost {
  uint64_t sites = 0;
  uint64_t rows = 0;
  // Bytes that the kernels read: weights, gradients and moments of the selected parameters. Activations depend on the
  // batch and are not in the site index.
  uint64_t bytes = 0;
};

// Costs of a collected step by PlannedSite::group; index 0 is the sites outside of groups. `sites` must be those that
// the plan was compiled for.
std::vector<PlanCost> CostsByGroup(const Plan& plan, const SiteIndex& sites, int micro_batches);
// Cost of a step that collects all groups.
PlanCost CostOfAll(const std::vector<PlanCost>& costs);

}  // namespace stepwatch::plan
