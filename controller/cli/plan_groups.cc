#include "controller/cli/plan_groups.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/print.h"
#include "src/base/text.h"

namespace stepwatch::cli {
namespace {

// Rows and bytes of a collected step, in the mean over the steps of a long window.
std::pair<double, double> MeanOf(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs) {
  double rows = 0, bytes = 0;
  for (size_t group = 0; group < costs.size(); ++group) {
    if (costs[group].sites == 0) continue;
    const double every = group == 0 ? 1 : static_cast<double>(plan.layout.groups[group - 1].every);
    rows += static_cast<double>(costs[group].rows) / every;
    bytes += static_cast<double>(costs[group].bytes) / every;
  }
  return {rows, bytes};
}

const std::vector<Stat>& OpsOf(const plan::Plan& plan, size_t group) {
  const std::vector<Stat>& ops = plan.layout.groups[group].stats;
  return ops.empty() ? plan.layout.stats : ops;
}

unsigned long long Printed(uint64_t number) {
  return number;
}

}  // namespace

std::string OpsText(const std::vector<Stat>& ops) {
  std::string text;
  for (Stat stat : ops) text += (text.empty() ? "" : ", ") + std::string(StatName(stat));
  return text;
}

void PrintGroups(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs) {
  const auto& groups = plan.config.own.sites;
  for (size_t i = 0; i < groups.size(); ++i) {
    const plan::PlanCost& cost = costs[i + 1];
    base::Print(stdout, "sites[%zu]    \"%s\": ", i, base::Printable(groups[i].match).c_str());
    if (groups[i].every == 0) {
      base::Print(stdout, "not collected\n");
      continue;
    }
    const std::string when =
        groups[i].every == 1 ? "each collected step" : "one of " + std::to_string(groups[i].every) + " collected steps";
    base::Print(stdout, "%llu sites, %llu rows, %.1f MB in %s; %s\n", Printed(cost.sites), Printed(cost.rows),
                static_cast<double>(cost.bytes) / 1e6, when.c_str(), OpsText(OpsOf(plan, i)).c_str());
  }
}

void PrintMean(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs) {
  if (plan.layout.groups.empty()) return;
  const auto [rows, bytes] = MeanOf(plan, costs);
  base::Print(stdout, "that is the first one, with all groups; in the mean %.1f rows, %.1f MB\n", rows, bytes / 1e6);
}

void AddGroups(const plan::Plan& plan, const std::vector<plan::PlanCost>& costs, nlohmann::ordered_json* json) {
  if (plan.layout.groups.empty()) return;
  const auto [rows, bytes] = MeanOf(plan, costs);
  (*json)["mean_rows_per_step"] = rows;
  (*json)["mean_parameter_bytes_per_step"] = bytes;
  nlohmann::ordered_json& list = (*json)["groups"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < plan.layout.groups.size(); ++i) {
    nlohmann::ordered_json group = {{"match", plan.config.own.sites[i].match},
                                    {"every", plan.config.own.sites[i].every},
                                    {"sites", costs[i + 1].sites},
                                    {"rows", costs[i + 1].rows},
                                    {"parameter_bytes", costs[i + 1].bytes}};
    for (Stat stat : OpsOf(plan, i)) group["ops"].push_back(StatName(stat));
    list.push_back(std::move(group));
  }
}

}  // namespace stepwatch::cli
