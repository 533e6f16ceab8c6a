#include "operations/remedy/guards.h"

#include <algorithm>
#include <set>

namespace stepwatch::operations::remedy {
namespace {

constexpr double kDaySeconds = 86400;

// It has started, or would have.
bool HasStarted(const Action& action) {
  switch (action.state) {
    case ActionState::kNew:
    case ActionState::kGuarded:
    case ActionState::kExpired:
    case ActionState::kRejected: return false;
    default: return true;
  }
}

bool TakesNode(const Policy& policy, const std::string& rule_name) {
  for (const Rule& rule : policy.rules) {
    if (rule.name != rule_name || rule.type != DeedType::kProgram) continue;
    const Program* program = ProgramNamed(policy, rule.program);
    return program != nullptr && program->takes_node;
  }
  return false;
}

// A node that an action has taken counts until it is given back, also after a restart: there is no latch to reset.
bool HoldsNode(const Policy& policy, const Action& action) {
  if (!TakesNode(policy, action.rule) || !HasStarted(action)) return false;
  return action.state != ActionState::kRolledBack && action.state != ActionState::kShadowed;
}

std::string Seconds(double seconds) {
  return std::to_string(static_cast<int64_t>(seconds)) + " s";
}

}  // namespace

bool HasSameSubject(const Trigger& one, const Trigger& other) {
  return one.run == other.run && (!one.run.empty() || one.host == other.host);
}

std::string Hindrance(const Policy& policy, const Rule& rule, const Action& action, const Situation& situation,
                      const Actions& actions, double now) {
  if (const double age = now - situation.triggered_t; age < rule.after_seconds)
    return "its trigger must last " + Seconds(rule.after_seconds);
  if (!rule.phases.empty()) {
    if (!situation.phase) return "the phase of the run is unknown";
    if (std::find(rule.phases.begin(), rule.phases.end(), *situation.phase) == rule.phases.end())
      return "the run is in phase " + std::string(NameOf(*situation.phase));
  }
  if (rule.ranks_max && static_cast<int64_t>(action.trigger.ranks.size()) > *rule.ranks_max)
    return std::to_string(action.trigger.ranks.size()) + " ranks are affected, more than ranks_max";
  int64_t today = 0;
  std::set<std::string> nodes;
  for (const auto& [id, each] : actions) {
    if (id == action.id || each.is_shadow != action.is_shadow) continue;
    if (HoldsNode(policy, each)) nodes.insert(each.trigger.host);
    if (each.rule != rule.name || !HasStarted(each) || !HasSameSubject(each.trigger, action.trigger)) continue;
    if (!IsOver(each.state)) return "an action of this rule is still in progress";
    if (now - each.state_t < rule.cooldown_seconds)
      return "an action of this rule ended less than " + Seconds(rule.cooldown_seconds) + " ago";
    if (now - each.created_t < kDaySeconds) ++today;
  }
  if (today >= rule.per_day_max)
    return "this rule has acted " + std::to_string(today) + " times within a day, its per_day_max";
  if (TakesNode(policy, rule.name) && !nodes.contains(action.trigger.host) &&
      static_cast<int64_t>(nodes.size()) >= policy.nodes_max)
    return "actions have " + std::to_string(nodes.size()) + " nodes out of work, as many as nodes_max";
  return "";
}

}  // namespace stepwatch::operations::remedy
