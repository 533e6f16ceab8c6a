#include "src/config/difference.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/config/fields.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::config {
namespace {

using Json = nlohmann::ordered_json;

const char* NameOf(EpsMode mode) {
  return mode == EpsMode::kExact ? "exact" : "parity";
}

const char* NameOf(Coordination coordination) {
  switch (coordination) {
    case Coordination::kStrict: break;
    case Coordination::kBestEffort: return "besteffort";
    case Coordination::kLocal: return "local";
  }
  return "strict";
}

const char* NameOf(NameSource names) {
  return names == NameSource::kTorch ? "torch" : "model";
}

const char* NameOf(OnRestart on_restart) {
  return on_restart == OnRestart::kOnce ? "once" : "start";
}

Json OpsJson(const std::vector<Stat>& ops) {
  Json list = Json::array();
  for (const Stat stat : ops) list.push_back(StatName(stat));
  return list;
}

// The word for a kind in the key `kinds`.
const char* WordOf(SiteKind kind) {
  for (const KindWord& known : kKindWords)
    if (known.kinds[0] == kind && known.kinds[1] == kind) return known.word;
  return SiteKindName(kind);
}

Json RuleJson(const AlertRule& rule) {
  Json json = {{"rule_name", rule.rule_name}};
  if (rule.threshold) json["args"]["threshold"] = *rule.threshold;
  return json;
}

Json GroupJson(const SiteGroup& group) {
  Json json = {{"match", group.match}};
  if (!group.exclude.empty()) json["exclude"] = group.exclude;
  for (const SiteKind kind : group.kinds) json["kinds"].push_back(WordOf(kind));
  if (group.every != 1) json["every"] = group.every;
  if (!group.ops.empty()) json["ops"] = OpsJson(group.ops);
  return json;
}

template <class Entry>
Json ListJson(const std::vector<Entry>& entries, Json (*json_of)(const Entry&)) {
  Json list = Json::array();
  for (const Entry& entry : entries) list.push_back(json_of(entry));
  return list;
}

class Values {
 public:
  void Add(std::string key, const Json& value) {
    values_.push_back({std::move(key), value.dump(-1, ' ', false, Json::error_handler_t::replace)});
  }
  std::vector<ConfigValue> Take() { return std::move(values_); }

 private:
  std::vector<ConfigValue> values_;
};

void AddSelection(const Config& config, Values* values) {
  values->Add("targets", config.targets);  // only their names: a JSON library would look up each key of an object
  values->Add("xy_distribution", config.xy_distribution);
  values->Add("all_xy", config.all_xy);
  values->Add("forward_only", config.forward_only);
  values->Add("backward_only", config.backward_only);
  values->Add("wg_distribution", config.wg_distribution);
  values->Add("monitor_mbs_grad", config.monitor_mbs_grad);
  values->Add("param_distribution", config.param_distribution);
  values->Add("mv_distribution", config.mv_distribution);
  values->Add("mg_direction", config.mg_direction);
  values->Add("print_struct", config.print_struct);
  values->Add("module_ranks", config.module_ranks);
}

void AddWindow(const Config& config, Values* values) {
  values->Add("dynamic_on", config.dynamic_on);
  values->Add("start_step", config.start_step);
  values->Add("collect_times", config.collect_times);
  values->Add("step_interval", config.step_interval);
}

void AddOutput(const Config& config, Values* values) {
  values->Add("ops", OpsJson(config.ops));
  values->Add("eps", config.eps);
  values->Add("ndigits", config.ndigits ? Json(*config.ndigits) : Json());
  values->Add("format", kOutputFormats[static_cast<size_t>(config.format)].name);
  values->Add("step_count_per_record", config.step_count_per_record);
  values->Add("append_output", config.append_output);
  values->Add("squash_name", config.squash_name);
  values->Add("alert.rules", ListJson(config.alert.rules, RuleJson));
  values->Add("alert.dump", config.alert.dump);
}

void AddFeatures(const Config& config, Values* values) {
  values->Add("recording_l2_features", config.recording_l2_features);
  values->Add("l2_targets", config.l2_targets);
  values->Add("sa_order", config.sa_order);
  values->Add("cc_distribution.enable", config.cc_distribution.enable);
  values->Add("cc_distribution.cc_codeline", config.cc_distribution.cc_codeline);
  values->Add("cc_distribution.cc_pre_hook", config.cc_distribution.cc_pre_hook);
  values->Add("cc_distribution.cc_log_only", config.cc_distribution.cc_log_only);
  values->Add("stack_info", config.stack_info);
  values->Add("ur_distribution", config.ur_distribution);
}

void AddOwn(const OwnOptions& own, Values* values) {
  values->Add("stepwatch.columns", own.plan_id_column ? Json::array({"plan_id"}) : Json::array());
  values->Add("stepwatch.eps_mode", NameOf(own.eps_mode));
  values->Add("stepwatch.coordination", NameOf(own.coordination));
  values->Add("stepwatch.on_restart", NameOf(own.on_restart));
  values->Add("stepwatch.names", NameOf(own.names));
  values->Add("stepwatch.exit_after_struct", own.exit_after_struct);
  values->Add("stepwatch.sites", ListJson(own.sites, GroupJson));
  values->Add("stepwatch.budget.percent", own.budget ? Json(own.budget->percent) : Json());
}

}  // namespace

std::vector<ConfigValue> ValuesOf(const Config& config) {
  Values values;
  AddSelection(config, &values);
  AddWindow(config, &values);
  AddOutput(config, &values);
  AddFeatures(config, &values);
  AddOwn(config.own, &values);
  return values.Take();
}

std::vector<KeyDifference> DifferencesOf(const Config& was, const Config& now) {
  std::vector<ConfigValue> old_values = ValuesOf(was), new_values = ValuesOf(now);
  std::vector<KeyDifference> differences;
  for (size_t i = 0; i < old_values.size(); ++i)
    if (old_values[i] != new_values[i])
      differences.push_back(
          {std::move(old_values[i].key), std::move(old_values[i].json), std::move(new_values[i].json)});
  return differences;
}

}  // namespace stepwatch::config
