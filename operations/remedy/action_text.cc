#include "operations/remedy/action_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "src/json/loose_json.h"
#include "src/json/members.h"

namespace stepwatch::operations::remedy {
namespace {

template <class Value, size_t count>
std::optional<Value> Named(const std::array<std::string_view, count>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Value>(found - names.begin());
}

Json TriggerJson(const Trigger& trigger) {
  Json labels = Json::object();
  for (const auto& [name, value] : trigger.labels) labels[name] = value;
  return {{"id", trigger.id},
          {"kind", trigger.kind},
          {"severity", operations::NameOf(trigger.severity)},
          {"run", json::OrNull(trigger.run)},
          {"host", json::OrNull(trigger.host)},
          {"owner", json::OrNull(trigger.owner)},
          {"ranks", trigger.ranks},
          {"since_step", json::OrNull(trigger.since_step)},
          {"labels", labels},
          {"summary", trigger.summary}};
}

Trigger TriggerOf(const Json& json) {
  Trigger trigger;
  trigger.id = json::RawText(json, "id");
  trigger.kind = json::RawText(json, "kind");
  trigger.severity = SeverityNamed(json::RawText(json, "severity")).value_or(Severity::kWarning);
  trigger.run = json::RawText(json, "run");
  trigger.host = json::RawText(json, "host");
  trigger.owner = json::RawText(json, "owner");
  for (const Json& rank : json::List(json, "ranks"))
    if (rank.is_number_integer()) trigger.ranks.push_back(rank.get<int64_t>());
  if (const Json& step = json::Member(json, "since_step"); step.is_number_integer())
    trigger.since_step = step.get<int64_t>();
  for (const auto& [name, value] : json::Part(json, "labels").items())
    if (value.is_string()) trigger.labels.emplace_back(name, value.get<std::string>());
  trigger.summary = json::RawText(json, "summary");
  return trigger;
}

}  // namespace

std::string ActionText(const Action& action) {
  return json::Dump({{"id", action.id},
                     {"rule", action.rule},
                     {"action", NameOf(action.type)},
                     {"state", NameOf(action.state)},
                     {"shadow", action.is_shadow},
                     {"needs_approval", action.needs_approval},
                     {"created_t", action.created_t},
                     {"state_t", action.state_t},
                     {"why", action.why},
                     {"actor", json::OrNull(action.actor)},
                     {"note", json::OrNull(action.note)},
                     {"before", json::OrNull(action.before)},
                     {"after", json::OrNull(action.after)},
                     {"verified", action.verified ? Json(*action.verified) : Json()},
                     {"trigger", TriggerJson(action.trigger)}});
}

Result<Action> ParseAction(std::string_view text) {
  const Result<Json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.status();
  const Json& json = parsed.value();
  const auto type = Named<DeedType>(kDeedTypeNames, json::RawText(json, "action"));
  const auto state = Named<ActionState>(kActionStateNames, json::RawText(json, "state"));
  Action action;
  action.id = json::RawText(json, "id");
  action.rule = json::RawText(json, "rule");
  if (!type || !state || action.id.empty() || action.rule.empty()) return Status(StatusCode::kInvalid, "not an action");
  action.type = *type;
  action.state = *state;
  action.is_shadow = json::IsTrue(json, "shadow");
  action.needs_approval = json::IsTrue(json, "needs_approval");
  action.created_t = json::Number(json, "created_t");
  action.state_t = json::Number(json, "state_t");
  action.why = json::RawText(json, "why");
  action.actor = json::RawText(json, "actor");
  action.note = json::RawText(json, "note");
  action.before = json::RawText(json, "before");
  action.after = json::RawText(json, "after");
  if (const Json& verified = json::Member(json, "verified"); verified.is_boolean())
    action.verified = verified.get<bool>();
  action.trigger = TriggerOf(json::Part(json, "trigger"));
  return action;
}

}  // namespace stepwatch::operations::remedy
