#include <string>

#include "src/config/fields.h"

namespace stepwatch::config {
namespace {

using Kind = JsonValue::Kind;

constexpr std::string_view kTurbulence = "AnomalyTurbulence";
constexpr std::string_view kNan = "AnomalyNan";
constexpr std::string_view kArgsAccepted = "an object such as {\"threshold\": 0.5}";

// A rule as written. `usable` becomes false where msProbe ignores the rule.
struct RuleText {
  AlertRule rule;
  bool usable = true;
};

Status ReadRuleName(const Field& field, Notes& notes, RuleText& text) {
  Status status = ReadString(field, notes, "\"AnomalyTurbulence\" or \"AnomalyNan\"", text.rule.rule_name);
  if (!status.ok() || text.rule.rule_name == kTurbulence || text.rule.rule_name == kNan) return status;
  return notes.RefuseWord(StatusCode::kWrongType, field, {kTurbulence, kNan});
}

Status ReadThreshold(const Field& field, const Notes& notes, RuleText& text) {
  constexpr std::string_view kAccepted = "a number of at least 0";
  if (!field.value.Is(Kind::kInteger) && !field.value.Is(Kind::kFloat))
    return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  if (field.value.number < 0) return notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
  text.rule.threshold = field.value.number;
  return Status();
}

// Without a threshold, non-empty args are rejected; with one, extra args make the rule unusable.
Status ReadArgs(const Field& field, Notes& notes, RuleText& text) {
  if (!field.value.Is(Kind::kObject)) return notes.Refuse(StatusCode::kWrongType, field, kArgsAccepted);
  if (field.value.children.empty()) return Status();
  const JsonValue* threshold = field.value.Member("threshold");
  if (threshold == nullptr) return notes.RefuseKey(MemberOf(field, field.value.children.front()), {"threshold"});
  Status status = ReadThreshold(MemberOf(field, *threshold), notes, text);
  if (status.ok() && field.value.children.size() > 1) {
    text.usable = false;
    notes.Replaced(field, "the key \"threshold\" alone", "the rule is left out");
  }
  return status;
}

Status ReadRule(const Field& field, Notes& notes, Alert& alert) {
  static constexpr KeyRule<RuleText> kAlertFields[] = {{{.key = "rule_name"}, ReadRuleName},
                                                       {{.key = "args"}, ReadArgs}};
  constexpr std::string_view kAccepted =
      "an object such as {\"rule_name\": \"AnomalyTurbulence\", \"args\": {\"threshold\": 0.5}}";
  if (!field.value.Is(Kind::kObject) || field.value.Member("rule_name") == nullptr)
    return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  RuleText text;
  Status status = ReadMembers<RuleText>(field, kAlertFields, UnknownKeys::kWarn, notes, text);
  if (!status.ok()) return status;
  if (text.usable && text.rule.rule_name == kTurbulence && !text.rule.threshold) {
    text.usable = false;
    notes.Replaced(field, "AnomalyTurbulence with \"args\": {\"threshold\": ...}", "the rule is left out");
  }
  if (text.usable) alert.rules.push_back(text.rule);
  return Status();
}

Status ReadRules(const Field& field, Notes& notes, Alert& alert) {
  if (!field.value.Is(Kind::kArray)) return notes.Refuse(StatusCode::kWrongType, field, "a list of rules; [] for none");
  for (size_t i = 0; i < field.value.children.size(); ++i) {
    Status status = ReadRule(ElementOf(field, i), notes, alert);
    if (!status.ok()) return status;
  }
  return Status();
}

constexpr std::string_view kRulesSchema = R"(
    "type": "array",
    "items": {
      "type": "object",
      "required": ["rule_name"],
      "properties": {
        "rule_name": {
          "enum": ["AnomalyTurbulence", "AnomalyNan"],
          "description": "AnomalyTurbulence needs a threshold; without one the rule is left out with a warning."
        },
        "args": {
          "type": "object",
          "description": "Empty, or with a threshold. With another key beside it the rule is left out with a warning.",
          "properties": {
            "threshold": {
              "type": "number",
              "minimum": 0,
              "description": "AnomalyTurbulence: maximum rise above the mean. AnomalyNan: maximum value."
            }
          },
          "anyOf": [{"maxProperties": 0}, {"required": ["threshold"]}]
        }
      }
    })";

constexpr KeyRule<Alert> kAlertKeys[] = {
    {{"rules", "list of `{\"rule_name\": …, \"args\": {\"threshold\": …}}`", "",
      "`rule_name` is `AnomalyTurbulence` (a rise above the mean of the earlier values, by more than `threshold`: 0.5 "
      "is 50 %) or `AnomalyNan` (NaN, or above `threshold` if given); `threshold` is a number ≥ 0. The first rule "
      "that hits makes the alarm",
      "another name, `args` with keys but no `threshold`: wrong type. AnomalyTurbulence without a threshold, or "
      "another key beside `threshold`: warning, the rule is left out",
      kRulesSchema},
     ReadRules},
    Bool<&Alert::dump, Alert>("dump",
                              "writes the alarms to `anomaly_detected/rank{R}/anomaly.json`, in every `format`"),
};

Status ReadAlert(const Field& field, Notes& notes, Config& config) {
  if (!field.value.Is(Kind::kObject) || field.value.Member("rules") == nullptr)
    return notes.Refuse(StatusCode::kWrongType, field, "an object with a list \"rules\", such as {\"rules\": []}");
  return ReadMembers<Alert>(field, kAlertKeys, UnknownKeys::kWarn, notes, config.alert);
}

constexpr KeyRule<Config> kAlertFields[] = {
    {{"alert", "object with a list `rules`", "{\"rules\": []}", "judges every collected value, in every `format`",
      "`rules` missing: wrong type", R"("type": "object", "required": ["rules"])"},
     ReadAlert}};

}  // namespace

std::span<const KeyRule<Config>> AlertFields() {
  return kAlertFields;
}
std::span<const KeyRule<Alert>> InsideAlert() {
  return kAlertKeys;
}

}  // namespace stepwatch::config
