#include <algorithm>
#include <string>
#include <utility>

#include "src/plan/features.h"
#include "src/plan/front_end_requests.h"
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

std::vector<SiteKind> ParameterKinds(const Config& config, const SiteIndex& index) {
  std::vector<SiteKind> kinds;
  if (config.wg_distribution) kinds.insert(kinds.end(), {SiteKind::kGradUnreduced, SiteKind::kGradReduced});
  if (config.param_distribution) kinds.insert(kinds.end(), {SiteKind::kParamOrigin, SiteKind::kParamUpdated});
  if (config.mv_distribution) kinds.insert(kinds.end(), {SiteKind::kExpAvg, SiteKind::kExpAvgSq});
  if (config.mg_direction) kinds.push_back(SiteKind::kMgDirection);
  if (config.ur_distribution && config.format == OutputFormat::kTensorBoard && index.heatmaps)
    kinds.insert(kinds.end(), {SiteKind::kAdamUpdate, SiteKind::kAdamRatio});
  return kinds;
}

void AddModules(const Config& config, const SiteIndex& index, const Selection& selection, const Features& features,
                std::vector<PlannedSite>* sites) {
  const std::vector<SiteKind> kinds = ModuleKinds(config);
  for (size_t i = 0; i < index.modules.size(); ++i) {
    if (!index.modules[i].watchable) continue;
    const auto owner = static_cast<uint32_t>(i);
    const SiteName& name = selection.modules()[i];
    if (!kinds.empty() && selection.SelectsModule(i)) {
      for (SiteKind kind : kinds) {
        sites->push_back({kind, Port::kInput, owner, name.chunk, name.display + ".input"});
        sites->push_back({kind, Port::kOutput, owner, name.chunk, name.display + ".output"});
      }
    }
    for (SiteKind kind : features.Of(name))
      sites->push_back({kind, Port::kNone, owner, name.chunk, Features::NameOf(kind, name)});
  }
}

void AddParameters(const Config& config, const SiteIndex& index, const Selection& selection,
                   std::vector<PlannedSite>* sites) {
  const std::vector<SiteKind> kinds = ParameterKinds(config, index);
  for (size_t i = 0; i < index.parameters.size() && !kinds.empty(); ++i) {
    if (!selection.SelectsParameter(i)) continue;
    const SiteName& name = selection.parameters()[i];
    for (SiteKind kind : kinds)
      sites->push_back({kind, Port::kNone, static_cast<uint32_t>(i), name.chunk, name.display});
  }
}

void AddOperators(const Config& config, const SiteIndex& index, std::vector<PlannedSite>* sites) {
  const config::CcDistribution& cc = config.cc_distribution;
  if (!cc.enable || cc.cc_log_only) return;
  for (size_t i = 0; i < index.operators.size(); ++i) {
    const auto owner = static_cast<uint32_t>(i);
    const std::string& name = index.operators[i];
    if (cc.cc_pre_hook) sites->push_back({SiteKind::kCommunication, Port::kInput, owner, 0, name + ".pre"});
    sites->push_back({SiteKind::kCommunication, Port::kOutput, owner, 0, name + ".post"});
  }
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
  plan->requests = RequestsOf(config, sites, plan->rank_writes);
  plan->config_sha256 = inputs.config_sha256;
  plan->config = config;
  plan->append_output = config.append_output;
  if (plan->rank_writes) {
    const Selection selection(config, sites);
    const Features features(config, sites);
    AddModules(config, sites, selection, features, &plan->layout.sites);
    AddParameters(config, sites, selection, &plan->layout.sites);
    AddOperators(config, sites, &plan->layout.sites);
    for (auto warnings : {selection.Warnings(), features.Warnings(selection.modules()), BeyondFrontEnd(config, sites)})
      compiled.warnings.insert(compiled.warnings.end(), warnings.begin(), warnings.end());
  }
  compiled.plan = std::move(plan);
  return compiled;
}

}  // namespace stepwatch::plan
