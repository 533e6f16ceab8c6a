#include <algorithm>
#include <string>
#include <vector>

#include "src/config/fields.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

Status ReadCodeLines(const Field& field, Notes& notes, CcDistribution& cc) {
  return ReadStrings(field, notes, "a list of regular expressions, such as [\"train.py\\\\[23\\\\]\"]; [] for all",
                     cc.cc_codeline);
}

constexpr KeyRule<CcDistribution> kInsideCc[] = {
    Bool<&CcDistribution::enable, CcDistribution>("enable",
                                                  "watches the tensors of communication operators after each call"),
    {{"cc_codeline", "list of strings", "[]",
      "only calls with a match of one of these regular expressions in the call stack; `[]`: all", "",
      R"("type": "array", "items": {"type": "string"})"},
     ReadCodeLines},
    Bool<&CcDistribution::cc_pre_hook, CcDistribution>("cc_pre_hook", "watches the tensors before each call as well"),
    Bool<&CcDistribution::cc_log_only, CcDistribution>("cc_log_only",
                                                       "collects no tensors: rank 0 logs the call stacks of the "
                                                       "operators, each with dtype and group, then the run ends"),
};

Status ReadCcDistribution(const Field& field, Notes& notes, Config& config) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field, ObjectWithKeys<CcDistribution>(kInsideCc));
  return ReadMembers<CcDistribution>(field, kInsideCc, UnknownKeys::kRefuse, notes, config.cc_distribution);
}

Status ReadModuleNames(const Field& field, Notes& notes, Config& config) {
  return ReadStrings(field, notes, "a list of module names", config.l2_targets[field.value.key]);
}

Status ReadL2Targets(const Field& field, Notes& notes, Config& config) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field,
                        "an object of hooks, each with a list of module names, such as {\"linear_hook\": []}");
  std::vector<KeyRule<Config>> hooks;
  for (const SiteKindTraits& traits : kSiteKindTraits)
    if (IsFeature(traits.kind)) hooks.push_back({{.key = traits.name}, ReadModuleNames});
  return ReadMembers<Config>(field, hooks, UnknownKeys::kRefuse, notes, config);
}

Status ReadSaOrder(const Field& field, Notes& notes, Config& config) {
  constexpr std::string_view kAccepted = "\"s,b,h,d\" or \"b,s,h,d\"";
  std::string order;
  Status status = ReadString(field, notes, kAccepted, order);
  if (!status.ok()) return status;
  order.erase(std::remove(order.begin(), order.end(), ' '), order.end());
  if (order != "s,b,h,d" && order != "b,s,h,d") return notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
  config.sa_order = order;
  return Status();
}

constexpr KeyRule<Config> kFeatureFields[] = {
    Bool<&Config::recording_l2_features>("recording_l2_features", "computes the features of `l2_targets`"),
    {{"l2_targets", "object: hook → list of strings", "{}",
      "the modules of each feature, by their exact names, as in `targets` (`\"1:layers.0.attn\"` is the one in chunk "
      "1): {features}. An empty list selects every module for `linear_hook`, and none for the others",
      "any other key: wrong type. A name that no module has: warning",
      R"("type": "object", "additionalProperties": false)"},
     ReadL2Targets},
    {{"sa_order", "string", "\"s,b,h,d\"",
      "order of dimensions in attention inputs: `\"s,b,h,d\"` or `\"b,s,h,d\"`. Spaces are ignored",
      "another text: out of range", R"("type": "string", "pattern": "^ *(s *, *b|b *, *s) *, *h *, *d *$")"},
     ReadSaOrder},
    {{"cc_distribution", "object", "{}", "communication operators, see below", "another key: wrong type",
      R"("type": "object", "additionalProperties": false)"},
     ReadCcDistribution},
    Bool<&Config::stack_info>(
        "stack_info", "writes the call stack of each module once: [`stack_info.csv`](../formats/csv.md#stack_infocsv)"),
    Bool<&Config::ur_distribution>("ur_distribution",
                                   "[images](../formats/tensorboard.md#images) of Adam's updates and ratios: a heat "
                                   "map for each selected parameter",
                                   "needs `\"format\": \"tensorboard\"`, otherwise not effective. Python only"),
};

}  // namespace

std::span<const KeyRule<Config>> FeatureFields() {
  return kFeatureFields;
}
std::span<const KeyRule<CcDistribution>> InsideCcDistribution() {
  return kInsideCc;
}

}  // namespace stepwatch::config
