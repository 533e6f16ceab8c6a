#include "src/plan/plan_cost.h"

namespace stepwatch::plan {
namespace {

uint64_t BytesOf(const Plan& plan, const PlannedSite& site, const SiteIndex& sites, int micro_batches) {
  if (OwnerOf(site.kind) != SiteOwner::kParameter || site.owner == kNoOwner) return 0;
  const ParameterEntry& parameter = sites.parameters[site.owner];
  uint64_t elements = 1;
  for (int64_t size : parameter.shape) elements *= static_cast<uint64_t>(size);
  const bool each_micro_batch = site.kind == SiteKind::kGradUnreduced && plan.layout.micro_step_in_grad_unreduced;
  const uint64_t reads = site.kind == SiteKind::kMgDirection ? 2
                         : each_micro_batch                  ? static_cast<uint64_t>(micro_batches)
                                                             : 1;
  return elements * static_cast<uint64_t>(ElementSize(parameter.dtype)) * reads;
}

}  // namespace

std::vector<PlanCost> CostsByGroup(const Plan& plan, const SiteIndex& sites, int micro_batches) {
  std::vector<PlanCost> costs(1 + plan.layout.groups.size());
  for (const PlannedSite& site : plan.layout.sites) {
    PlanCost& cost = costs[site.group];
    ++cost.sites;
    cost.rows += plan.RowsPerStep(site, micro_batches);
    cost.bytes += BytesOf(plan, site, sites, micro_batches);
  }
  return costs;
}

PlanCost CostOfAll(const std::vector<PlanCost>& costs) {
  PlanCost all;
  for (const PlanCost& cost : costs) {
    all.sites += cost.sites;
    all.rows += cost.rows;
    all.bytes += cost.bytes;
  }
  return all;
}

}  // namespace stepwatch::plan
