#include <string>

#include "src/config/fields.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

Status ReadTargets(const Field& field, Notes& notes, Config& config) {
  constexpr std::string_view kAccepted = "an object of names, each with an object, such as {\"layers.0\": {}}";
  if (!field.value.Is(Kind::kObject)) return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  for (const JsonValue& child : field.value.children) {
    const Field target = MemberOf(field, child);
    if (!child.Is(Kind::kObject))
      return notes.Refuse(StatusCode::kWrongType, target, "an object, which may be empty: {}");
    config.targets.push_back(child.key);
  }
  return Status();
}

// The three counts of the window take anything, as msProbe does: what is unusable is replaced, and said.
Status ReadCount(const Field& field, Notes& notes, int64_t least, int64_t instead, int64_t& out) {
  const std::optional<int64_t> value = field.value.Is(Kind::kInteger) ? field.value.integer : std::nullopt;
  if (value && *value >= least) {
    out = *value;
    return Status();
  }
  out = instead;
  notes.Replaced(field, "an integer, at least " + std::to_string(least), std::to_string(instead) + " is used");
  return Status();
}

Status ReadStartStep(const Field& field, Notes& notes, Config& config) {
  return ReadCount(field, notes, 0, 0, config.start_step);
}

Status ReadCollectTimes(const Field& field, Notes& notes, Config& config) {
  return ReadCount(field, notes, 0, kCollectTimesForever, config.collect_times);
}

Status ReadStepInterval(const Field& field, Notes& notes, Config& config) {
  return ReadCount(field, notes, 1, 1, config.step_interval);
}

Status ReadModuleRanks(const Field& field, Notes& notes, Config& config) {
  if (!field.value.Is(Kind::kArray))
    return notes.Refuse(StatusCode::kWrongType, field, "a list of ranks, such as [0, 8]; [] for all");
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    int64_t rank = 0;
    Status status = ReadInteger(ElementOf(field, i), notes, {0}, rank);
    if (!status.ok()) return status;
    config.module_ranks.push_back(rank);
  }
  return Status();
}

Status ReadMonitorMbsGrad(const Field& field, Notes& notes, Config& config) {
  config.monitor_mbs_grad = field.value.Is(Kind::kBool) && field.value.boolean;
  if (!field.value.Is(Kind::kBool)) notes.Replaced(field, "true or false", "false is used");
  return Status();
}

constexpr KeyRule<Config> kFields[] = {
    {"targets", ReadTargets},
    {"dynamic_on", ReadBoolInto<&Config::dynamic_on, Config>},
    {"start_step", ReadStartStep},
    {"collect_times", ReadCollectTimes},
    {"step_interval", ReadStepInterval},
    {"print_struct", ReadBoolInto<&Config::print_struct, Config>},
    {"module_ranks", ReadModuleRanks},
    {"xy_distribution", ReadBoolInto<&Config::xy_distribution, Config>},
    {"all_xy", ReadBoolInto<&Config::all_xy, Config>},
    {"forward_only", ReadBoolInto<&Config::forward_only, Config>},
    {"backward_only", ReadBoolInto<&Config::backward_only, Config>},
    {"mv_distribution", ReadBoolInto<&Config::mv_distribution, Config>},
    {"wg_distribution", ReadBoolInto<&Config::wg_distribution, Config>},
    {"monitor_mbs_grad", ReadMonitorMbsGrad},
    {"param_distribution", ReadBoolInto<&Config::param_distribution, Config>},
    {"mg_direction", ReadBoolInto<&Config::mg_direction, Config>},
};

}  // namespace

std::span<const KeyRule<Config>> SelectionFields() {
  return kFields;
}

void CompleteSelection(Config& config) {
  if (config.targets.empty() && config.xy_distribution) config.all_xy = true;
}

}  // namespace stepwatch::config
