#include "operations/remedy/remedy.h"

#include <algorithm>
#include <utility>

#include "operations/remedy/action_text.h"

namespace stepwatch::operations::remedy {
namespace {

// Slashes divide the parts of paths of requests.
std::string IdOf(const Rule& rule, const Trigger& trigger) {
  return rule.name + ":" + trigger.id;
}

}  // namespace

Remedy::Remedy(RemedyCallbacks callbacks) : callbacks_(std::move(callbacks)) {}

Remedy::~Remedy() {
  *is_alive_ = false;
}

void Remedy::Apply(Policy policy) {
  policy_ = std::move(policy);
}

void Remedy::Restore(const std::map<std::string, std::string>& rows, double now) {
  now_ = now;
  for (const auto& [id, text] : rows) {
    Result<Action> action = ParseAction(text);
    if (!action.ok() || action.value().id != id) continue;
    triggers_.try_emplace(action.value().trigger.id, Known{action.value().created_t, std::nullopt});
    actions_.insert_or_assign(id, std::move(action).value());
  }
  std::vector<std::string> ids;
  for (const auto& [id, action] : actions_) ids.push_back(id);
  for (const std::string& id : ids) Feed(id, Restarted{}, now);
}

void Remedy::Take(const Trigger& trigger, double now) {
  now_ = now;
  if (policy_.mode == Mode::kOff) return;
  auto known = triggers_.find(trigger.id);
  if (known == triggers_.end()) {
    if (triggers_.size() >= kTriggersMax) {
      ++triggers_left_out_;
      return;
    }
    known = triggers_.emplace(trigger.id, Known{now, std::nullopt}).first;
  }
  if (known->second.over_t) known->second = Known{now, std::nullopt};
  for (const Rule& rule : policy_.rules)
    if (MatchesTrigger(rule.match, trigger)) Begin(rule, trigger, now);
  ForgetOld();
}

void Remedy::Begin(const Rule& rule, const Trigger& trigger, double now) {
  const std::string id = IdOf(rule, trigger);
  if (const auto found = actions_.find(id); found != actions_.end()) {
    // The culprits may become known later; an action that has started keeps what it started with.
    if (found->second.state == ActionState::kNew) found->second.trigger = trigger;
    return;
  }
  for (const auto& [other_id, other] : actions_)
    if (other.rule == rule.name && !IsOver(other.state) && HasSameSubject(other.trigger, trigger)) return;
  Action action;
  action.id = id;
  action.rule = rule.name;
  action.type = rule.type;
  action.trigger = trigger;
  action.created_t = action.state_t = now;
  action.is_shadow = policy_.mode == Mode::kShadow;
  action.needs_approval = NeedsApproval(rule);
  callbacks_.store(id, ActionText(action));
  actions_.emplace(id, std::move(action));
  AskGuards(id, now);
}

void Remedy::TakeEnd(std::string_view trigger_id, double now) {
  now_ = now;
  const auto known = triggers_.find(trigger_id);
  if (known == triggers_.end() || known->second.over_t) return;
  known->second.over_t = now;
  std::vector<std::string> ids;
  for (const auto& [id, action] : actions_)
    if (action.trigger.id == trigger_id) ids.push_back(id);
  for (const std::string& id : ids) {
    Feed(id, Verified{true, "its trigger is over"}, now);
    // A way back waits, so that a trigger that comes and goes does not switch it to and fro.
    if (const auto found = actions_.find(id); found != actions_.end() && found->second.state != ActionState::kDone)
      Feed(id, TriggerOver{}, now);
  }
}

void Remedy::PassOver(const std::string& trigger_id, double now) {
  std::vector<std::string> ids;
  for (const auto& [id, action] : actions_)
    if (action.trigger.id == trigger_id && action.state == ActionState::kDone) ids.push_back(id);
  for (const std::string& id : ids) Feed(id, TriggerOver{}, now);
}

void Remedy::Tick(double now) {
  now_ = now;
  std::vector<std::string> over;
  for (const auto& [id, known] : triggers_)
    if (known.over_t && now - *known.over_t >= kOverSeconds) over.push_back(id);
  for (const std::string& id : over) {
    PassOver(id, now);
    triggers_.erase(id);
  }
  std::vector<std::string> ids;
  for (const auto& [id, action] : actions_)
    if (!IsOver(action.state)) ids.push_back(id);
  for (const std::string& id : ids) {
    if (actions_.at(id).state == ActionState::kNew) AskGuards(id, now);
    Feed(id, remedy::Tick{}, now);
  }
}

Status Remedy::Approve(std::string_view id, const std::string& by, const std::string& note, double now) {
  const auto found = actions_.find(id);
  if (found == actions_.end()) return Status(StatusCode::kNotFound, "no such action");
  if (found->second.state != ActionState::kGuarded)
    return Status(StatusCode::kUnavailable,
                  "the action is " + std::string(NameOf(found->second.state)) + ", and waits for no approval");
  Feed(found->first, Approved{by, note}, now);
  return Status();
}

Status Remedy::Reject(std::string_view id, const std::string& by, const std::string& note, double now) {
  const auto found = actions_.find(id);
  if (found == actions_.end()) return Status(StatusCode::kNotFound, "no such action");
  if (found->second.state != ActionState::kGuarded && found->second.state != ActionState::kNew)
    return Status(StatusCode::kUnavailable,
                  "the action is " + std::string(NameOf(found->second.state)) + ", and can be rejected no more");
  Feed(found->first, Rejected{by, note}, now);
  return Status();
}

std::vector<Action> Remedy::List(bool pending_only, size_t limit) const {
  std::vector<Action> actions;
  for (const auto& [id, action] : actions_)
    if (!pending_only || action.state == ActionState::kGuarded) actions.push_back(action);
  std::sort(actions.begin(), actions.end(),
            [](const Action& one, const Action& other) { return one.created_t > other.created_t; });
  if (actions.size() > limit) actions.resize(limit);
  return actions;
}

const Rule* Remedy::RuleOf(const Action& action) const {
  for (const Rule& rule : policy_.rules)
    if (rule.name == action.rule && rule.type == action.type) return &rule;
  return nullptr;
}

// A rule that is gone leaves its actions the usual times, and no way back.
ActionTimes Remedy::TimesOf(const Action& action) const {
  ActionTimes times;
  const Rule* rule = RuleOf(action);
  if (rule == nullptr) return times;
  times.expires = rule->expires_seconds;
  times.verifies = rule->verify_seconds;
  times.returns = rule->type == DeedType::kPowerLimit || (rule->type == DeedType::kProgram && !rule->undo.empty());
  return times;
}

void Remedy::AskGuards(const std::string& id, double now) {
  const Action& action = actions_.at(id);
  const Rule* rule = RuleOf(action);
  if (rule == nullptr) return Feed(id, GuardsRead{false, "its rule is no longer in the policy"}, now);
  Situation situation;
  if (const auto known = triggers_.find(action.trigger.id); known != triggers_.end())
    situation.triggered_t = known->second.begun_t;
  situation.phase = callbacks_.phase(action.trigger.run);
  const std::string why = Hindrance(policy_, *rule, action, situation, actions_, now);
  Feed(id, GuardsRead{why.empty(), why}, now);
}

void Remedy::Feed(const std::string& id, const ActionInput& input, double now) {
  const auto found = actions_.find(id);
  if (found == actions_.end()) return;
  ActionTransition transition = Step(found->second, input, TimesOf(found->second), now);
  found->second = std::move(transition.action);
  if (transition.is_changed) callbacks_.store(id, ActionText(found->second));
  for (const Effect effect : transition.effects) Perform(id, effect, now);
}

void Remedy::Perform(const std::string& id, Effect effect, double now) {
  switch (effect) {
    case Effect::kStart: return Start(id, false);
    case Effect::kRollBack: return Start(id, true);
    case Effect::kReport: return callbacks_.report(actions_.at(id));
    case Effect::kVerify: {
      const Action& action = actions_.at(id);
      const Rule* rule = RuleOf(action);
      const auto known = triggers_.find(action.trigger.id);
      const bool is_over = known == triggers_.end() || known->second.over_t;
      if (rule != nullptr && !rule->verifies)
        return Feed(id,
                    action.state == ActionState::kUnknown ? Verified{false, "its rule has no verification"}
                                                          : Verified{true, ""},
                    now);
      if (is_over) Feed(id, Verified{true, "its trigger is over"}, now);
      return;
    }
  }
}

// Only after the new state is safe: a start that may be forgotten could be repeated.
void Remedy::Start(const std::string& id, bool is_back) {
  const auto is_alive = is_alive_;
  callbacks_.flush([this, is_alive, id, is_back](bool is_safe) {
    if (!*is_alive) return;
    const auto found = actions_.find(id);
    if (found == actions_.end()) return;
    const ActionState awaited = is_back ? ActionState::kRollingBack : ActionState::kRunning;
    if (found->second.state != awaited) return;
    const Rule* rule = RuleOf(found->second);
    if (!is_safe || rule == nullptr) {
      const char* why = is_safe ? "its rule is no longer in the policy; it was not started"
                                : "the store cannot be written; it was not started";
      return Feed(id, Ended{false, why, "", ""}, now_);
    }
    const auto then = [this, is_alive, id](Ended end) {
      if (*is_alive) Feed(id, end, now_);
    };
    if (is_back)
      callbacks_.deeds->RollBack(found->second, *rule, then);
    else
      callbacks_.deeds->Start(found->second, *rule, then);
  });
}

void Remedy::ForgetOld() {
  if (actions_.size() <= kActionsMax) return;
  std::vector<std::pair<double, std::string>> over;
  for (const auto& [id, action] : actions_)
    if (IsOver(action.state)) over.emplace_back(action.state_t, id);
  const size_t count = std::min(over.size(), actions_.size() - kActionsMax);
  std::nth_element(over.begin(), over.begin() + static_cast<std::ptrdiff_t>(count), over.end());
  for (size_t i = 0; i < count; ++i) actions_.erase(over[i].second);
}

}  // namespace stepwatch::operations::remedy
