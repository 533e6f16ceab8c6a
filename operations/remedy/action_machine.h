// The life of an action: a pure function of (action, input).
//
// An action is stored in its new state before any effect of the transition is carried out. So a start that a kill of
// stepwatchd interrupts is known, and is never repeated.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "operations/remedy/action.h"

namespace stepwatch::operations::remedy {

// The times of a rule, in seconds.
struct ActionTimes {
  double expires = 3600;  // before the start, without an approval or with guards that do not hold
  double runs = 600;      // until the end of the deed
  double verifies = 600;  // until its effect shows
  bool returns = false;   // the deed has a way back, which is taken when the trigger is over
};

// Whether the guards and limits of the rule hold now, and why not.
struct GuardsRead {
  bool hold = false;
  std::string why;
};
struct Approved {
  std::string by, note;
};
struct Rejected {
  std::string by, note;
};
// The deed, or its way back, has ended.
struct Ended {
  bool ok = false;
  std::string why;
  std::string before, after;
};
// The effect of the deed shows, or it is known that it does not.
struct Verified {
  bool ok = false;
  std::string why;
};
struct TriggerOver {};
// A new process of stepwatchd has read the action from the store.
struct Restarted {};
struct Tick {};
using ActionInput = std::variant<GuardsRead, Approved, Rejected, Ended, Verified, TriggerOver, Restarted, Tick>;

// Carried out after the action is safe in the store.
enum class Effect : uint8_t { kStart, kVerify, kRollBack, kReport };

struct ActionTransition {
  Action action;
  std::vector<Effect> effects;
  bool is_changed = false;  // to be stored
};

ActionTransition Step(Action action, const ActionInput& input, const ActionTimes& times, double now);

}  // namespace stepwatch::operations::remedy
