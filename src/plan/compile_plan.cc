#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "src/plan/features.h"
#include "src/plan/plan.h"
#include "src/plan/selection.h"
#include "src/plan/site_groups.h"
#include "src/plan/site_names.h"

namespace stepwatch::plan {
namespace {

using config::Config;

bool RankWrites(const Config& config, int rank) {
  const auto& ranks = config.module_ranks;
  return ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool Contains(const std::vector<SiteKind>& kinds, SiteKind kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool DrawsHeatmaps(const Config& config, const SiteIndex& index) {
  return config.ur_distribution && config.format == OutputFormat::kTensorBoard && index.heatmaps;
}

void AddModules(const SiteIndex& index, const std::vector<SiteKind>& kinds, const Selection& selection,
                const Features& features, SiteGroups* groups, std::vector<PlannedSite>* sites) {
  for (size_t i = 0; i < index.modules.size(); ++i) {
    const SiteName& name = selection.modules()[i];
    const std::vector<size_t> matching = groups->OfModule(name);
    if (!index.modules[i].watchable) {
      groups->NoteUnwatchable(matching, name);
      continue;
    }
    const auto owner = static_cast<uint32_t>(i);
    const bool selected = selection.SelectsModule(i);
    for (const SiteKind kind : {SiteKind::kActv, SiteKind::kActvGrad}) {
      const auto group = groups->Place(matching, kind, selected && Contains(kinds, kind));
      if (!group) continue;
      sites->push_back({kind, Port::kInput, owner, name.chunk, name.display + ".input", *group});
      sites->push_back({kind, Port::kOutput, owner, name.chunk, name.display + ".output", *group});
    }
    for (const SiteKind kind : features.Of(name))
      sites->push_back({kind, Port::kNone, owner, name.chunk, Features::NameOf(kind, name)});
  }
}

void AddParameters(const SiteIndex& index, const std::vector<SiteKind>& kinds, bool heatmaps,
                   const Selection& selection, SiteGroups* groups, std::vector<PlannedSite>* sites) {
  for (size_t i = 0; i < index.parameters.size(); ++i) {
    const SiteName& name = selection.parameters()[i];
    const std::vector<size_t> matching = groups->OfParameter(name);
    if (!index.parameters[i].requires_grad) continue;
    const auto owner = static_cast<uint32_t>(i);
    const bool selected = selection.SelectsParameter(i);
    for (const SiteKindTraits& traits : kSiteKindTraits) {
      if (traits.owner != SiteOwner::kParameter) continue;
      const auto group = HasHeatmap(traits.kind)
                             ? (selected && heatmaps ? std::optional<uint8_t>(0) : std::nullopt)
                             : groups->Place(matching, traits.kind, selected && Contains(kinds, traits.kind));
      if (group) sites->push_back({traits.kind, Port::kNone, owner, name.chunk, name.display, *group});
    }
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
  LayOutGroups(config, &layout);
  return layout;
}

int64_t IntervalOf(const Config& config, const Sampling& sampling) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return config.step_interval > kMost / sampling.factor ? kMost : config.step_interval * sampling.factor;
}

FrontEndRequests RequestsOf(const config::Config& config, const SiteIndex& sites, bool rank_writes) {
  const config::CcDistribution& cc = config.cc_distribution;
  const bool communication = cc.enable && !sites.operators.empty();
  FrontEndRequests requests;
  requests.structure = config.print_struct && rank_writes;
  requests.exit_after_structure = config.print_struct && config.own.exit_after_struct;
  requests.stacks = config.stack_info && sites.stacks && rank_writes;
  if (requests.structure || requests.stacks) requests.module_names = NamesInStructure(sites, config);
  requests.communication = communication && rank_writes;
  requests.communication_log_only = communication && cc.cc_log_only;
  if (requests.communication) requests.communication_codeline = cc.cc_codeline;
  requests.batch_first_attention = config.sa_order == "b,s,h,d";
  return requests;
}

// One warning for each key that is switched on and has no effect with this front end.
std::vector<config::Warning> BeyondFrontEnd(const config::Config& config, const SiteIndex& sites) {
  struct Request {
    bool beyond;
    const char* key;
    const char* lack;
  };
  const Request requests[] = {
      {config.recording_l2_features && !sites.features, "recording_l2_features", "it computes no L2 features"},
      {config.cc_distribution.enable && sites.operators.empty(), "cc_distribution.enable",
       "it watches no communication operators"},
      {config.stack_info && !sites.stacks, "stack_info", "it records no call stacks"},
      {config.ur_distribution && config.format == OutputFormat::kTensorBoard && !sites.heatmaps, "ur_distribution",
       "it draws no images of updates and ratios"},
  };
  std::vector<config::Warning> warnings;
  for (const Request& request : requests)
    if (request.beyond)
      warnings.push_back({config::Warning::Kind::kNotEffective,
                          {request.key, 0, 0},
                          std::string("accepted, but not effective with this front end: ") + request.lack});
  return warnings;
}

Status AtLeastOne(const char* key, int64_t value) {
  if (value >= 1) return Status();
  return Status(StatusCode::kOutOfRange, "found " + std::to_string(value) + "; accepted: an integer, at least 1",
                {key, 0, 0});
}

}  // namespace

Result<CompiledPlan> CompilePlan(const Config& config, const SiteIndex& sites, const PlanInputs& inputs) {
  for (const Status& status : {AtLeastOne("step_interval", config.step_interval),
                               AtLeastOne("step_count_per_record", config.step_count_per_record)})
    if (!status.ok()) return status;

  CompiledPlan compiled;
  auto plan = std::make_shared<Plan>();
  plan->layout = LayoutOf(config, inputs.plan_id);
  plan->rule = {config.start_step, IntervalOf(config, inputs.sampling), config.collect_times};
  plan->sampling = inputs.sampling;
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
    const std::vector<SiteKind> kinds = KindsOf(config);
    SiteGroups groups(config);
    AddModules(sites, kinds, selection, features, &groups, &plan->layout.sites);
    AddParameters(sites, kinds, DrawsHeatmaps(config, sites), selection, &groups, &plan->layout.sites);
    AddOperators(config, sites, &plan->layout.sites);
    std::erase_if(plan->layout.sites,
                  [&](const PlannedSite& site) { return Contains(inputs.sampling.left_out, site.kind); });
    for (auto warnings : {selection.Warnings(), features.Warnings(selection.modules()),
                          groups.Warnings(selection.modules(), selection.parameters()), BeyondFrontEnd(config, sites)})
      compiled.warnings.insert(compiled.warnings.end(), warnings.begin(), warnings.end());
  }
  compiled.plan = std::move(plan);
  return compiled;
}

}  // namespace stepwatch::plan
