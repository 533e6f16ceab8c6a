// An action: one deed of one rule for one trigger, from its cause to its end, with all that its record holds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operations/remedy/trigger.h"

namespace stepwatch::operations::remedy {

enum class DeedType : uint8_t {
  kEscalate,     // the monitor collects more, for some steps
  kCommand,      // the trainer is asked
  kPowerLimit,   // of the GPUs of the trigger's host
  kCheckpoints,  // old ones of the run are removed
  kProgram,      // of the list of allowed ones
  kNotify,       // people are asked
};

//   new -> guarded -> approved -> running -> verifying -> done -> rolling_back -> rolled_back
//
// In shadow mode a guarded action ends as shadowed. An action whose start is stored and whose end is not is unknown
// after a restart: its verification decides, and it is not started again.
enum class ActionState : uint8_t {
  kNew,        // its guards do not hold yet
  kGuarded,    // its guards hold; it waits for an approval, if it needs one
  kApproved,   // it waits for its turn
  kRunning,    // its start is stored
  kVerifying,  // it has ended well; its effect is awaited
  kDone,       //
  kFailed,     // it, its verification or its way back
  kExpired,    // it was not started in time, or its trigger ended before
  kRejected,   // by a person
  kShadowed,   // it would have run
  kUnknown,    // nobody knows whether it ran to its end
  kRollingBack,
  kRolledBack,
};

inline constexpr std::array<std::string_view, 6> kDeedTypeNames = {"escalate",    "command", "power_limit",
                                                                   "checkpoints", "program", "notify"};
inline constexpr std::array<std::string_view, 13> kActionStateNames = {
    "new",     "guarded",  "approved", "running", "verifying",    "done",       "failed",
    "expired", "rejected", "shadowed", "unknown", "rolling_back", "rolled_back"};

inline std::string_view NameOf(DeedType type) {
  return kDeedTypeNames.at(static_cast<size_t>(type));
}
inline std::string_view NameOf(ActionState state) {
  return kActionStateNames.at(static_cast<size_t>(state));
}

struct Action {
  std::string id;    // of the rule and the trigger: the same after a restart
  std::string rule;  // name
  DeedType type = DeedType::kNotify;
  Trigger trigger;
  ActionState state = ActionState::kNew;
  double created_t = 0;
  double state_t = 0;  // since when it is in this state
  std::string why;     // the reason of this state
  bool is_shadow = false;
  bool needs_approval = false;
  std::string actor;   // who approved or rejected it; empty: the policy
  std::string note;    // of that person
  std::string before;  // of what it changes, as the way back needs it
  std::string after;
  std::optional<bool> verified;

  bool operator==(const Action&) const = default;
};

// No later change: only the way back of one that is done.
inline bool IsOver(ActionState state) {
  switch (state) {
    case ActionState::kDone:
    case ActionState::kFailed:
    case ActionState::kExpired:
    case ActionState::kRejected:
    case ActionState::kShadowed:
    case ActionState::kRolledBack: return true;
    default: return false;
  }
}

}  // namespace stepwatch::operations::remedy
