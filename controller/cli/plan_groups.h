// What a collected step costs, by the groups of "stepwatch": {"sites": ...}, as `stepwatch plan` shows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/plan/plan_cost.h"

namespace stepwatch::cli {

// "norm, max"
std::string OpsText(const std::vector<Stat>& ops);
// Nothing of these for a plan without groups.
void PrintGroups(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs);
void PrintMean(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs);
void AddGroups(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs, nlohmann::ordered_json* json);

}  // namespace stepwatch::cli
