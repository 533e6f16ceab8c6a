// What a collected step costs, by the groups of "stepwatch": {"sites": ...}, as `stepwatch plan` shows it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/plan/plan.h"
#include "stepwatch/site.h"

namespace stepwatch::cli {

struct GroupCost {
  uint64_t sites = 0;
  uint64_t rows = 0;
  // That the kernels read: weights, gradients and moments of the selected parameters. Activations depend on the batch
  // and are not in the site index.
  uint64_t bytes = 0;
};

// By PlannedSite::group: first the sites of no group. Of a step that collects them.
std::vector<GroupCost> CostsByGroup(const plan::Plan& plan, const SiteIndex& sites, int micro_batches);
// Of a step that collects all of them.
GroupCost CostOfAll(const std::vector<GroupCost>& costs);

// "norm, max"
std::string OpsText(const std::vector<Stat>& ops);
// Nothing of these for a plan without groups.
void PrintGroups(const plan::Plan& plan, const std::vector<GroupCost>& costs);
void PrintMean(const plan::Plan& plan, const std::vector<GroupCost>& costs);
void AddGroups(const plan::Plan& plan, const std::vector<GroupCost>& costs, nlohmann::ordered_json* json);

}  // namespace stepwatch::cli
