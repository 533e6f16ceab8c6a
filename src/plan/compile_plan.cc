#include <algorithm>
#include <utility>

#include "src/plan/plan.h"
#include "src/plan/selection.h"

namespace stepwatch::plan {
namespace {

using config::Config;

bool RankWrites(const Config& config, int rank) {
  const auto& ranks = config.module_ranks;
  return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::vector<SiteKind> ModuleKinds(const Config& config) {
  if (!config.xy_distribution || (config.forward_only && config.backward_only)) return {};
  if (config.forward_only) return {SiteKind::kActv};
  if (config.backward_only) return {SiteKind::kActvGrad};
  return {SiteKind::kActv, SiteKind::kActvGrad};
}

std::vector<SiteKind> ParameterKinds(const Config& config) {
  std::vector<SiteKind> kinds;
  if (config.wg_distribution) kinds.insert(kinds.end(), {SiteKind::kGradUnreduced, SiteKind::kGradReduced});
  if (config.param_distribution) kinds.insert(kinds.end(), {SiteKind::kParamOrigin, SiteKind::kParamUpdated});
  if (config.mv_distribution) kinds.insert(kinds.end(), {SiteKind::kExpAvg, SiteKind::kExpAvgSq});
  if (config.mg_direction) kinds.push_back(SiteKind::kMgDirection);
  return kinds;
}

std::vector<PlannedSite> PlanSites(const Config& config, const SiteIndex& index, const Selection& selection) {
  std::vector<PlannedSite> sites;
  const std::vector<SiteKind> module_kinds = ModuleKinds(config);
  for (size_t i = 0; i < index.modules.size() && !module_kinds.empty(); ++i) {
    if (!index.modules[i].watchable || !selection.SelectsModule(i)) continue;
    const SiteName& name = selection.modules()[i];
    for (SiteKind kind : module_kinds) {
      sites.push_back({kind, Port::kInput, static_cast<uint32_t>(i), name.chunk, name.display + ".input"});
      sites.push_back({kind, Port::kOutput, static_cast<uint32_t>(i), name.chunk, name.display + ".output"});
    }
  }
  const std::vector<SiteKind> parameter_kinds = ParameterKinds(config);
  for (size_t i = 0; i < index.parameters.size() && !parameter_kinds.empty(); ++i) {
    if (!selection.SelectsParameter(i)) continue;
    const SiteName& name = selection.parameters()[i];
    for (SiteKind kind : parameter_kinds)
      sites.push_back({kind, Port::kNone, static_cast<uint32_t>(i), name.chunk, name.display});
  }
  return sites;
}

RecordLayout LayoutOf(const Config& config, PlanId plan_id) {
  RecordLayout layout;
  layout.plan_id = plan_id;
  layout.stats = config.ops;
  layout.ndigits = config.ndigits.value_or(-1);
  layout.step_count_per_record = config.step_count_per_record;
  layout.micro_step_in_grad_unreduced = config.monitor_mbs_grad;
  layout.format = config.format;
  layout.plan_id_column = config.own.plan_id_column;
  return layout;
}

Status AtLeastOne(const char* key, int64_t value) {
  if (value >= 1) return Status();
  return Status(StatusCode::kOutOfRange,
                std::to_string(value) + " is not usable; give a whole number of steps, 1 or more", {key, 0, 0});
}

}  // namespace

Result<CompiledPlan> CompilePlan(const Config& config, const SiteIndex& sites, const PlanInputs& inputs) {
  for (const Status& status : {AtLeastOne("step_interval", config.step_interval),
                               AtLeastOne("step_count_per_record", config.step_count_per_record)})
    if (!status.ok()) return status;

  CompiledPlan compiled;
  auto plan = std::make_shared<Plan>();
  plan->layout = LayoutOf(config, inputs.plan_id);
  plan->rule = {config.start_step, config.step_interval, config.collect_times};
  plan->eps = config.eps;
  plan->eps_mode = config.own.eps_mode;
  plan->rank_writes = RankWrites(config, inputs.rank);
  plan->wants_structure = config.print_struct && plan->rank_writes;
  plan->config_sha256 = inputs.config_sha256;
  plan->config = config;
  plan->append_output = config.append_output;
  if (plan->rank_writes) {
    const Selection selection(config, sites);
    plan->layout.sites = PlanSites(config, sites, selection);
    compiled.warnings = selection.Warnings();
  }
  compiled.plan = std::move(plan);
  return compiled;
}

}  // namespace stepwatch::plan
