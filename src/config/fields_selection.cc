#include <string>

#include "src/config/fields.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

Status ReadTargets(const Field& field, Notes& notes, Config& config) {
  constexpr std::string_view kAccepted = "an object that maps each name to an object, such as {\"layers.0\": {}}";
  if (!field.value.Is(Kind::kObject)) return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  for (const JsonValue& child : field.value.children) {
    const Field target = MemberOf(field, child);
    if (!child.Is(Kind::kObject))
      return notes.Refuse(StatusCode::kWrongType, target, "an object, which may be empty: {}");
    config.targets.push_back(child.key);
  }
  return Status();
}

// The three counts of the window accept anything, as in msProbe: unusable values are replaced with a warning.
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

constexpr KeyRule<Config> kSelectionFields[] = {
    {{"targets", "object: name → object", "{}", "the names select parameters and modules; `{}` selects everything",
      "the inner objects are not read and may be empty",
      R"("type": "object", "additionalProperties": {"type": "object", "description": "Not read; may be empty."})"},
     ReadTargets},
    Bool<&Config::xy_distribution>("xy_distribution",
                                   "activations and their gradients: inputs and outputs of the selected modules"),
    Bool<&Config::all_xy>("all_xy", "with `xy_distribution`: every module, regardless of `targets`",
                          "becomes true if `targets` is empty and `xy_distribution` is true"),
    Bool<&Config::forward_only>("forward_only", "with `xy_distribution`: no gradients of activations",
                                "both true: warning, no activations are collected"),
    Bool<&Config::backward_only>("backward_only", "with `xy_distribution`: only gradients of activations"),
    Bool<&Config::wg_distribution>("wg_distribution", "gradients of parameters, before and after their reduction"),
    {{"monitor_mbs_grad", "boolean", "false", "with `wg_distribution`: the gradients of each micro-batch",
      "anything else: warning, `false` is used", R"("examples": [true, false])"},
     ReadMonitorMbsGrad},
    Bool<&Config::param_distribution>("param_distribution", "parameters before and after the update"),
    Bool<&Config::mv_distribution>("mv_distribution", "the optimizer's `exp_avg` and `exp_avg_sq` before the update"),
    Bool<&Config::mg_direction>("mg_direction", "agreement of gradient and momentum in sign"),
    Bool<&Config::print_struct>("print_struct",
                                "writes the module structure once. In Python the run then ends, unless "
                                "[`exit_after_struct`](#the-object-stepwatch) is false; in C++ it continues"),
    {{"module_ranks", "list of integers ≥ 0", "[]", "the ranks that collect; `[]`: all ranks", "negative: out of range",
      R"("type": "array", "items": {"type": "integer", "minimum": 0})"},
     ReadModuleRanks},
};

constexpr KeyRule<Config> kWindowFields[] = {
    Bool<&Config::dynamic_on>("dynamic_on", "dynamic mode only: true starts a collection, false stops it",
                              "set to false in the file when `collect_times` is reached"),
    {{"start_step", "integer ≥ 0", "0", "first collected step",
      "anything else: warning, `0` is used. Dynamic mode replaces it by the step after the accepted edit",
      R"("examples": [0, 100])"},
     ReadStartStep},
    {{"collect_times", "integer ≥ 0", "100000000", "number of collected steps; `0` collects none",
      "anything else: warning, `100000000` is used", R"("examples": [10])"},
     ReadCollectTimes},
    {{"step_interval", "integer ≥ 1", "1", "collects the steps with (step − start_step) mod step_interval = 0",
      "anything else: warning, `1` is used", R"("examples": [1, 100])"},
     ReadStepInterval},
};

}  // namespace

std::span<const KeyRule<Config>> SelectionFields() {
  return kSelectionFields;
}
std::span<const KeyRule<Config>> WindowFields() {
  return kWindowFields;
}

void CompleteSelection(Config& config) {
  if (config.targets.empty() && config.xy_distribution) config.all_xy = true;
}

}  // namespace stepwatch::config
