#include "controller/reload/machine.h"

#include <algorithm>
#include <utility>

namespace stepwatch::reload {
namespace {

// One step under way: the state to change and the actions so far.
struct Stepper {
  MachineState state;
  std::vector<Action> actions;

  void operator()(const BytesSeen& input);
  void operator()(const FileLost& input);
  void operator()(const Applied& input);
  void operator()(const Finished& input);
  void operator()(const Drained& input);
  void operator()(const WroteBack& input);
  void operator()(const FoundEdited& input);
  void operator()(const Rejected& input);
  void operator()(const Recompiled& input);

 private:
  void Run(const std::string& sha256, bool was_refused);
  void Arm(const std::string& sha256);
  void Offer(const MachinePlan& plan);
  void Stop();
  void WriteBackIfDue();
};

void Stepper::operator()(const BytesSeen& input) {
  const bool was_lost = std::exchange(state.lost, std::nullopt).has_value();
  if (input.sha256 == state.seen) {
    if (was_lost) actions.push_back(state.refused ? Action(ReportRefused{}) : Action(ReportRestored{}));
    return WriteBackIfDue();
  }
  const bool was_refused = std::exchange(state.refused, input.intent == EditIntent::kRefused);
  state.seen = input.sha256;
  state.due.reset();
  actions.push_back(ReportSeen{});
  switch (input.intent) {
    case EditIntent::kRefused: actions.push_back(ReportRefused{}); return;
    case EditIntent::kRun: return Run(input.sha256, was_refused);
    case EditIntent::kOff: return Stop();
    case EditIntent::kEmpty:
      state.due = MachinePlan{0, input.sha256};
      Stop();
      return WriteBackIfDue();
  }
}

void Stepper::Run(const std::string& sha256, bool was_refused) {
  // Going back from a refused edit to the bytes in force clears the error and disturbs nothing.
  const MachinePlan* newest = state.armed ? &*state.armed : state.window && !state.stopping ? &*state.window : nullptr;
  if (was_refused && newest != nullptr && newest->sha256 == sha256) {
    actions.push_back(ReportRestored{});
    return;
  }
  state.stopping = false;  // the new plan takes the place of the stop
  Arm(sha256);
}

void Stepper::Arm(const std::string& sha256) {
  state.armed = MachinePlan{state.next_plan_id++, sha256};
  Offer(*state.armed);
}

void Stepper::Offer(const MachinePlan& plan) {
  state.offered.push_back(plan);
  actions.push_back(OfferPlan{plan.plan_id, plan.keeps_window});
}

void Stepper::Stop() {
  if (!state.armed && !state.window) return;
  if (state.stopping) return;
  state.armed.reset();
  state.stopping = state.window.has_value();
  actions.push_back(ReportStopping{});
  actions.push_back(OfferStop{});
}

void Stepper::WriteBackIfDue() {
  if (!state.due || state.lost || state.window || state.armed || !state.draining.empty()) return;
  actions.push_back(WriteBack{state.due->sha256, state.due->plan_id});
  state.due.reset();
}

void Stepper::operator()(const FileLost& input) {
  if (state.lost == input.kind) return;
  state.lost = input.kind;
  actions.push_back(ReportLost{input.kind});
}

void Stepper::operator()(const Applied& input) {
  // Offers are applied in order: older ones that were passed over will never be.
  while (!state.offered.empty() && state.offered.front().plan_id < input.plan_id)
    state.offered.erase(state.offered.begin());
  if (state.offered.empty() || state.offered.front().plan_id != input.plan_id) return;
  // Told of the new window before the end of the old one (the model has grown at the very boundary).
  if (state.window) state.draining.push_back(*state.window);
  state.window = state.offered.front();
  state.offered.erase(state.offered.begin());
  if (state.armed && state.armed->plan_id == input.plan_id) {
    state.armed.reset();
    return;
  }
  // Applied while a stop was on its way: the stop ends it at the next boundary.
  if (!state.window->keeps_window) state.stopping = !state.armed;
}

void Stepper::operator()(const Finished& input) {
  if (!state.window || state.window->plan_id != input.plan_id) return;
  state.draining.push_back(*std::exchange(state.window, std::nullopt));
  // The plan that carries it on began at the same moment, or was passed over and ends with the next message.
  if (!state.offered.empty() && state.offered.front().keeps_window) {
    state.window = state.offered.front();
    state.offered.erase(state.offered.begin());
    return;
  }
  state.stopping = false;
}

void Stepper::operator()(const Drained& input) {
  const auto plan = std::find_if(state.draining.begin(), state.draining.end(),
                                 [&](const MachinePlan& each) { return each.plan_id == input.plan_id; });
  if (plan == state.draining.end()) return;
  const MachinePlan drained = *plan;
  state.draining.erase(plan);
  const bool complete = input.reason == step::EndReason::kTimes;
  if (state.dynamic && complete && state.seen == drained.sha256) state.due = drained;
  WriteBackIfDue();
}

void Stepper::operator()(const WroteBack& input) {
  state.seen = input.sha256;
  state.refused = false;
}

void Stepper::operator()(const FoundEdited& input) {
  state.seen = input.base_sha256;
  state.due = MachinePlan{input.plan_id, input.base_sha256};  // should the edit be taken back before it is seen
}

void Stepper::operator()(const Rejected& input) {
  if (input.plan_id == 0) state.stopping = false;
  if (!state.armed || state.armed->plan_id != input.plan_id) return;  // a newer edit has taken its place
  state.refused = state.refused || state.seen == state.armed->sha256;
  state.armed.reset();
  std::erase_if(state.offered, [&](const MachinePlan& plan) { return plan.plan_id == input.plan_id; });
}

// What is armed is offered again in any case: plans begin in the order of their ids.
void Stepper::operator()(const Recompiled& input) {
  if (input.in_force && state.window) {
    state.offered.clear();  // none of them has begun, and none will
    Offer({state.next_plan_id++, state.window->sha256, true});
  }
  if (state.armed) Arm(std::string(state.armed->sha256));
}

}  // namespace

Transition Step(MachineState state, const Input& input) {
  Stepper stepper{std::move(state), {}};
  std::visit(stepper, input);
  return {std::move(stepper.state), std::move(stepper.actions)};
}

RunState RunStateOf(const MachineState& state) {
  if (state.armed) return RunState::kArmed;
  if (state.window) return RunState::kCollecting;
  if (!state.draining.empty()) return RunState::kDraining;
  return state.dynamic ? RunState::kIdle : RunState::kOff;
}

}  // namespace stepwatch::reload
