#include "operations/remedy/guards.h"

#include "tests/catch.h"

namespace stepwatch::operations::remedy {
namespace {

struct Fleet {
  Policy policy;
  std::vector<Action> actions = {};

  Fleet() {
    policy.programs = {{"drain", {"/bin/drain", "{node}"}, 60, true}};
    Rule drain;
    drain.name = "drain";
    drain.match.kind = "gpu_fault";
    drain.type = DeedType::kProgram;
    drain.program = "drain";
    drain.cooldown_seconds = 100;
    drain.per_day_max = 2;
    policy.rules = {drain};
  }

  Rule& rule() { return policy.rules.front(); }

  static Action For(const std::string& host, ActionState state, double t) {
    Action action;
    action.id = "drain/" + host + std::to_string(t);
    action.rule = "drain";
    action.type = DeedType::kProgram;
    action.trigger.host = host;
    action.state = state;
    action.created_t = action.state_t = t;
    return action;
  }

  std::string Ask(const Action& action, double now, const Situation& situation = {}) {
    Actions by_id;
    for (const Action& each : actions) by_id.emplace(each.id, each);
    return Hindrance(policy, rule(), action, situation, by_id, now);
  }
};

const auto kNew = ActionState::kNew;
const auto kDone = ActionState::kDone;

TEST_CASE("a trigger must last, with few culprits, in a known phase") {
  Fleet fleet;
  fleet.rule().after_seconds = 10;
  fleet.rule().phases = {RunPhase::kTrain};
  fleet.rule().ranks_max = 1;
  Action action = Fleet::For("a", kNew, 0);
  CHECK(fleet.Ask(action, 9) == "its trigger must last 10 s");
  CHECK(fleet.Ask(action, 10) == "the phase of the run is unknown");
  CHECK(fleet.Ask(action, 10, {0, RunPhase::kEval}) == "the run is in phase eval");
  CHECK(fleet.Ask(action, 10, {0, RunPhase::kTrain}).empty());
  action.trigger.ranks = {1, 2};
  CHECK(fleet.Ask(action, 10, {0, RunPhase::kTrain}) == "2 ranks are affected, more than ranks_max");
}

TEST_CASE("an action of the same rule for the same host must be over for a while, and not the last of the day") {
  Fleet fleet;
  fleet.actions = {Fleet::For("a", ActionState::kRunning, 1000)};
  CHECK(fleet.Ask(Fleet::For("a", kNew, 1050), 1050) == "an action of this rule is still in progress");
  fleet.actions = {Fleet::For("a", ActionState::kRolledBack, 1000)};
  CHECK(fleet.Ask(Fleet::For("a", kNew, 1050), 1050) == "an action of this rule ended less than 100 s ago");
  CHECK(fleet.Ask(Fleet::For("a", kNew, 1100), 1100).empty());
  CHECK(fleet.Ask(Fleet::For("b", kNew, 1050), 1050).empty());
  fleet.actions.push_back(Fleet::For("a", ActionState::kFailed, 1200));
  CHECK(fleet.Ask(Fleet::For("b", kNew, 1400), 1400) == "actions have 1 nodes out of work, as many as nodes_max");
  CHECK(fleet.Ask(Fleet::For("a", kNew, 1400), 1400) == "this rule has acted 2 times within a day, its per_day_max");
  CHECK(fleet.Ask(Fleet::For("a", kNew, 90000), 90000).empty());
}

TEST_CASE("actions that never started limit nothing, and shadowed ones only shadowed ones") {
  Fleet fleet;
  for (const ActionState state : {ActionState::kExpired, ActionState::kRejected, ActionState::kGuarded})
    fleet.actions.push_back(Fleet::For("a", state, 1000));
  CHECK(fleet.Ask(Fleet::For("a", kNew, 1001), 1001).empty());
  fleet.actions = {Fleet::For("a", ActionState::kShadowed, 1000)};
  fleet.actions.front().is_shadow = true;
  CHECK(fleet.Ask(Fleet::For("a", kNew, 1001), 1001).empty());
  Action shadow = Fleet::For("a", kNew, 1001);
  shadow.is_shadow = true;
  CHECK_FALSE(fleet.Ask(shadow, 1001).empty());
}

TEST_CASE("nodes that actions have taken count until they are given back") {
  Fleet fleet;
  fleet.policy.nodes_max = 2;
  fleet.actions = {Fleet::For("a", kDone, 0), Fleet::For("b", ActionState::kUnknown, 0)};
  CHECK_FALSE(fleet.Ask(Fleet::For("c", kNew, 1e6), 1e6).empty());
  fleet.actions.back().state = ActionState::kRolledBack;
  CHECK(fleet.Ask(Fleet::For("c", kNew, 1e6), 1e6).empty());
}

}  // namespace
}  // namespace stepwatch::operations::remedy
