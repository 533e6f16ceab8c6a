#include "src/plan/front_end_requests.h"

#include <string>

#include "src/plan/site_names.h"

namespace stepwatch::plan {

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

std::vector<config::Warning> BeyondFrontEnd(const config::Config& config, const SiteIndex& sites) {
  struct Wish {
    bool beyond;
    const char* key;
    const char* lack;
  };
  const Wish wishes[] = {
      {config.recording_l2_features && !sites.features, "recording_l2_features", "it computes no L2 features"},
      {config.cc_distribution.enable && sites.operators.empty(), "cc_distribution.enable",
       "it watches no communication operators"},
      {config.stack_info && !sites.stacks, "stack_info", "it records no call stacks"},
      {config.ur_distribution && config.format == OutputFormat::kTensorBoard && !sites.heatmaps, "ur_distribution",
       "it draws no images of updates and ratios"},
  };
  std::vector<config::Warning> warnings;
  for (const Wish& wish : wishes)
    if (wish.beyond)
      warnings.push_back({config::Warning::Kind::kNotEffective,
                          {wish.key, 0, 0},
                          std::string("accepted, but not effective with this front end: ") + wish.lack});
  return warnings;
}

}  // namespace stepwatch::plan
