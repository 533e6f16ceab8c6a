// Whether a rule may act now: its guards, its limits, and the limit of nodes. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "operations/remedy/action.h"
#include "operations/remedy/policy.h"

namespace stepwatch::operations::remedy {

// The known facts about the trigger and its run now.
struct Situation {
  double triggered_t = 0;
  std::optional<RunPhase> phase;  // nullopt: unknown
};

// By id.
using Actions = std::map<std::string, Action, std::less<>>;

// Whether actions for the two limit each other: those for one run do; without a run, those on one host.
bool HasSameSubject(const Trigger& one, const Trigger& other);

// The reason why the action must wait; empty: it may start. `actions`: all that are kept, this one too. Shadowed
// actions limit shadowed ones, and real actions real ones.
std::string Hindrance(const Policy& policy, const Rule& rule, const Action& action, const Situation& situation,
                      const Actions& actions, double now);

}  // namespace stepwatch::operations::remedy
