#include "operations/remedy/action_machine.h"

#include <algorithm>
#include <random>

#include "tests/catch.h"
#include "tests/random_seed.h"

namespace stepwatch::operations::remedy {
namespace {

using State = ActionState;

bool Has(const ActionTransition& transition, Effect effect) {
  for (const Effect each : transition.effects)
    if (each == effect) return true;
  return false;
}

Action Made() {
  Action action;
  action.id = "rule/incident";
  return action;
}

// An action and the effects that it had so far.
struct Life {
  Action action = Made();
  ActionTimes times;
  double now = 0;
  std::vector<Effect> effects = {};

  ActionTransition Take(const ActionInput& input) {
    ActionTransition transition = Step(action, input, times, now);
    action = transition.action;
    effects.insert(effects.end(), transition.effects.begin(), transition.effects.end());
    return transition;
  }
};

TEST_CASE("an action without approval runs, is verified and is done") {
  Life life;
  CHECK(life.Take(GuardsRead{false, "too early"}).is_changed);
  CHECK(life.action.why == "too early");
  CHECK_FALSE(life.Take(GuardsRead{false, "too early"}).is_changed);
  CHECK(life.Take(GuardsRead{true, ""}).action.state == State::kApproved);
  CHECK(Has(life.Take(Tick{}), Effect::kStart));
  CHECK(life.action.state == State::kRunning);
  CHECK(Has(life.Take(Ended{true, "", "400 W", "320 W"}), Effect::kVerify));
  CHECK(life.action.before == "400 W");
  CHECK(Has(life.Take(Verified{true, "cooler"}), Effect::kReport));
  CHECK(life.action.state == State::kDone);
  CHECK_FALSE(life.Take(TriggerOver{}).is_changed);
}

TEST_CASE("an action that needs approval starts only after it, and records who gave it") {
  Life life;
  life.action.needs_approval = true;
  CHECK(Has(life.Take(GuardsRead{true, ""}), Effect::kReport));
  CHECK_FALSE(Has(life.Take(Tick{}), Effect::kStart));
  life.Take(Approved{"ada", "go"});
  CHECK(life.action.actor == "ada");
  CHECK(life.action.note == "go");
  CHECK(Has(life.Take(Tick{}), Effect::kStart));
}

TEST_CASE("an action that is rejected, comes too late or has lost its trigger never starts") {
  const ActionInput ends[] = {Rejected{"ada", "no"}, TriggerOver{}, Tick{}};
  const State states[] = {State::kRejected, State::kExpired, State::kExpired};
  for (size_t i = 0; i < 3; ++i) {
    Life life;
    life.action.needs_approval = true;
    life.Take(GuardsRead{true, ""});
    life.now = 3601;
    life.Take(ends[i]);
    CHECK(life.action.state == states[i]);
    CHECK_FALSE(life.Take(Approved{"ada", ""}).is_changed);
    CHECK_FALSE(life.Take(Tick{}).is_changed);
  }
}

TEST_CASE("in shadow mode an action ends before its start, also if it needs approval") {
  Life life;
  life.action.is_shadow = true;
  life.action.needs_approval = true;
  life.Take(GuardsRead{true, ""});
  CHECK(life.action.state == State::kShadowed);
  CHECK(life.effects.empty());
}

TEST_CASE("an action whose end is unknown after a restart is verified, and not started again") {
  Life life;
  life.Take(GuardsRead{true, ""});
  life.Take(Tick{});
  life.effects.clear();
  life.Take(Restarted{});
  CHECK(life.action.state == State::kUnknown);
  CHECK(life.effects == std::vector{Effect::kVerify, Effect::kReport});
  const bool shows = GENERATE(true, false);
  life.Take(Verified{shows, ""});
  CHECK(life.action.state == (shows ? State::kDone : State::kFailed));
}

TEST_CASE("an action with a way back takes it once, when its trigger is over") {
  Life life;
  life.times.returns = true;
  life.Take(GuardsRead{true, ""});
  life.Take(Tick{});
  life.Take(Ended{true, "", "", ""});
  life.Take(Verified{true, ""});
  CHECK(Has(life.Take(TriggerOver{}), Effect::kRollBack));
  CHECK(life.Take(TriggerOver{}).effects.empty());
  const bool works = GENERATE(true, false);
  life.Take(Ended{works, "", "", ""});
  CHECK(life.action.state == (works ? State::kRolledBack : State::kFailed));
}

TEST_CASE("a deed, a verification and a way back have a time") {
  Life life;
  life.times.returns = true;
  life.Take(GuardsRead{true, ""});
  life.Take(Tick{});
  SECTION("of the deed") {}
  SECTION("of the verification") {
    life.Take(Ended{true, "", "", ""});
  }
  SECTION("of the way back") {
    life.Take(Ended{true, "", "", ""});
    life.Take(Verified{true, ""});
    life.Take(TriggerOver{});
  }
  life.now = 599;
  CHECK_FALSE(life.Take(Tick{}).is_changed);
  life.now = 601;
  CHECK(Has(life.Take(Tick{}), Effect::kReport));
  CHECK(life.action.state == State::kFailed);
}

TEST_CASE("whatever happens, an action starts at most once, and never without approval, guards and store") {
  std::mt19937_64 random(test::RandomSeed());
  const std::vector<ActionInput> inputs = {GuardsRead{true, ""},
                                           GuardsRead{false, "no"},
                                           Approved{"ada", ""},
                                           Rejected{"ada", ""},
                                           Ended{true, "", "", ""},
                                           Ended{false, "", "", ""},
                                           Verified{true, ""},
                                           Verified{false, ""},
                                           TriggerOver{},
                                           Restarted{},
                                           Tick{}};
  for (int round = 0; round < 20000; ++round) {
    Life life;
    life.action.is_shadow = random() % 4 == 0;
    life.action.needs_approval = random() % 2 == 0;
    life.times.returns = random() % 2 == 0;
    bool held = false, approved = false;
    for (int i = 0; i < 12; ++i) {
      life.now += static_cast<double>(random() % 400);
      const ActionInput& input = inputs[random() % inputs.size()];
      const Action before = life.action;
      if (const auto* guards = std::get_if<GuardsRead>(&input))
        held = held || (before.state == State::kNew && guards->hold);
      approved = approved || (before.state == State::kGuarded && std::holds_alternative<Approved>(input));
      const ActionTransition transition = life.Take(input);
      REQUIRE(transition.is_changed == !(transition.action == before));
      if (IsOver(before.state) && before.state != State::kDone) REQUIRE_FALSE(transition.is_changed);
      if (!transition.effects.empty() && !std::holds_alternative<Restarted>(input)) REQUIRE(transition.is_changed);
      if (Has(transition, Effect::kStart)) {
        REQUIRE(held);
        REQUIRE_FALSE(life.action.is_shadow);
        REQUIRE((approved || !life.action.needs_approval));
        REQUIRE(life.action.state == State::kRunning);
      }
    }
    REQUIRE(std::count(life.effects.begin(), life.effects.end(), Effect::kStart) <= 1);
    REQUIRE(std::count(life.effects.begin(), life.effects.end(), Effect::kRollBack) <= 1);
  }
}

}  // namespace
}  // namespace stepwatch::operations::remedy
