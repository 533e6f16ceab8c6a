#include <algorithm>
#include <string>

#include "src/config/fields.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

Status ReadCodeLines(const Field& field, Notes& notes, CcDistribution& cc) {
  return ReadStrings(field, notes, "a list of regular expressions, such as [\"train.py\\\\[23\\\\]\"]; [] for all",
                     cc.cc_codeline);
}

Status ReadCcDistribution(const Field& field, Notes& notes, Config& config) {
  static constexpr KeyRule<CcDistribution> kFields[] = {
      {"enable", ReadBoolInto<&CcDistribution::enable, CcDistribution>},
      {"cc_codeline", ReadCodeLines},
      {"cc_pre_hook", ReadBoolInto<&CcDistribution::cc_pre_hook, CcDistribution>},
      {"cc_log_only", ReadBoolInto<&CcDistribution::cc_log_only, CcDistribution>},
  };
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field,
                        "an object with the keys \"enable\", \"cc_codeline\", \"cc_pre_hook\" and \"cc_log_only\"");
  return ReadMembers<CcDistribution>(field, kFields, UnknownKeys::kRefuse, notes, config.cc_distribution);
}

Status ReadModuleNames(const Field& field, Notes& notes, Config& config) {
  return ReadStrings(field, notes, "a list of module names", config.l2_targets[field.value.key]);
}

Status ReadL2Targets(const Field& field, Notes& notes, Config& config) {
  static constexpr KeyRule<Config> kHooks[] = {{"attention_hook", ReadModuleNames},
                                               {"linear_hook", ReadModuleNames},
                                               {"moe_router_weight_hook", ReadModuleNames},
                                               {"moe_router_logit_hook", ReadModuleNames}};
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field,
                        "an object of hooks, each with a list of module names, such as {\"linear_hook\": []}");
  return ReadMembers<Config>(field, kHooks, UnknownKeys::kRefuse, notes, config);
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

constexpr KeyRule<Config> kFields[] = {
    {"ur_distribution", ReadBoolInto<&Config::ur_distribution, Config>},
    {"cc_distribution", ReadCcDistribution},
    {"l2_targets", ReadL2Targets},
    {"recording_l2_features", ReadBoolInto<&Config::recording_l2_features, Config>},
    {"sa_order", ReadSaOrder},
};

}  // namespace

std::span<const KeyRule<Config>> FeatureFields() {
  return kFields;
}

}  // namespace stepwatch::config
