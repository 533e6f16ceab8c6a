// What a collected step of a plan costs: rows that are written, and bytes that are read.
#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/plan.h"
#include "stepwatch/site.h"

namespace stepwatch::plan {

struct PlanCost {
  uint64_t sites = 0;
  uint64_t rows = 0;
  // That the kernels read: weights, gradients and moments of the selected parameters. Activations depend on the batch
  // and are not in the site index.
  uint64_t bytes = 0;
};

// By PlannedSite::group: first the sites of no group. Of a step that collects them. `sites` are those that the plan was
// compiled for.
std::vector<PlanCost> CostsByGroup(const Plan& plan, const SiteIndex& sites, int micro_batches);
// Of a step that collects all of them.
PlanCost CostOfAll(const std::vector<PlanCost>& costs);

}  // namespace stepwatch::plan
