#include "controller/reload/machine.h"

#include <algorithm>
#include <utility>

namespace stepwatch::reload {
namespace {

// One step of the machine: the state to change and the actions so far.
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
  void operator()(const AgreedBytes& input);
  void operator()(const Rejected& input);
  void operator()(const Renumbered& input);
  void operator()(const Recompiled& input);
  void operator()(const Resampled& input);
  void operator()(const Discarded& input);
  void operator()(const OverrideBytes& input);
  void operator()(const EditRepeated& input);
  void operator()(const PauseRequested& input);
  void operator()(const LimitReached& input);

 private:
  bool FileIsAsItWas(const BytesSeen& input);
  const MachinePlan* NewestToCome() const;
  void TakeNew(const std::string& sha256, EditIntent intent);
  void Run(const std::string& sha256, bool was_refused);
  template <class Publish>
  void Arm(const std::string& sha256);
  MachinePlan* FindBegun(PlanId MachinePlan::*field, PlanId plan_id);
  void Continue(MachinePlan* plan);
  void DiscardContinuation(MachinePlan* plan);
  void Stop();
  void WriteBackIfDue();
};

void Stepper::operator()(const BytesSeen& input) {
  const bool was_lost = std::exchange(state.lost, std::nullopt).has_value();
  const bool is_new = std::exchange(state.has_returned, false);
  if (!is_new && FileIsAsItWas(input)) {
    if (was_lost) actions.push_back(state.refused ? Action(ReportRefused{}) : Action(ReportRestored{}));
    return WriteBackIfDue();
  }
  state.in_file.reset();  // the file wins
  TakeNew(input.sha256, input.intent);
}

// Bytes that override the file stay in force while it holds its earlier content. If they are saved into the file
// meanwhile, the override ends.
bool Stepper::FileIsAsItWas(const BytesSeen& input) {
  if (!state.in_file) return input.sha256 == state.seen;
  if (*state.in_file == input.sha256) return true;
  const MachinePlan* newest = NewestToCome();
  if (input.sha256 != state.seen || newest == nullptr || newest->sha256 != input.sha256) return false;
  state.in_file.reset();
  return true;
}

const MachinePlan* Stepper::NewestToCome() const {
  if (state.armed) return &*state.armed;
  return state.window && !state.stopping ? &*state.window : nullptr;
}

void Stepper::TakeNew(const std::string& sha256, EditIntent intent) {
  const bool was_refused = std::exchange(state.refused, intent == EditIntent::kRefused);
  state.seen = sha256;
  state.due.reset();
  actions.push_back(ReportSeen{});
  switch (intent) {
    case EditIntent::kRefused: actions.push_back(ReportRefused{}); return;
    case EditIntent::kRun: return Run(sha256, was_refused);
    case EditIntent::kOff: return Stop();
    case EditIntent::kDone: actions.push_back(ReportNotBegun{}); [[fallthrough]];
    case EditIntent::kEmpty:
      if (!state.in_file) state.due = MachinePlan{0, sha256};
      Stop();
      return WriteBackIfDue();
  }
}

void Stepper::operator()(const OverrideBytes& input) {
  if (input.intent == EditIntent::kRefused) return;
  if (!state.in_file) state.in_file = state.seen;
  if (*state.in_file == input.sha256) state.in_file.reset();
  state.returns = input.returns;
  state.has_returned = false;
  TakeNew(input.sha256, input.intent);
}

void Stepper::operator()(const EditRepeated& input) {
  if (state.in_file || state.refused || state.seen != input.sha256) return;
  if (state.armed || state.window || !state.draining.empty()) return;
  state.due.reset();
  Run(input.sha256, false);
}

void Stepper::Run(const std::string& sha256, bool was_refused) {
  // Going back from a refused edit to the bytes in force clears the error and changes no plan.
  const MachinePlan* newest = NewestToCome();
  if (was_refused && newest != nullptr && newest->sha256 == sha256) {
    actions.push_back(ReportRestored{});
    return;
  }
  state.stopping = false;  // the new plan replaces the stop
  Arm<PublishPlan>(sha256);
}

template <class Publish>
void Stepper::Arm(const std::string& sha256) {
  state.armed = MachinePlan{state.next_plan_id++, sha256};
  state.armed->window = state.armed->plan_id;
  state.published.push_back(*state.armed);
  actions.push_back(Publish{state.armed->plan_id});
}

void Stepper::Stop() {
  if (!state.armed && !state.window) return;
  if (state.stopping) return;
  state.armed.reset();
  state.stopping = state.window.has_value();
  // Published first: a client that reads the event can rely on the very next boundary to apply the stop.
  actions.push_back(PublishStop{step::EndReason::kStopped});
  actions.push_back(ReportStopping{});
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
  if (MachinePlan* continued = FindBegun(&MachinePlan::continuation, input.plan_id)) return Continue(continued);
  // Plans are applied in the order in which they were published: older ones never will be.
  while (!state.published.empty() && state.published.front().plan_id < input.plan_id)
    state.published.erase(state.published.begin());
  if (state.published.empty() || state.published.front().plan_id != input.plan_id) return;
  // The new window is reported before the end of the old one (the model has grown at the very boundary).
  if (state.window) state.draining.push_back(*state.window);
  state.window = state.published.front();
  state.published.erase(state.published.begin());
  if (state.armed && state.armed->plan_id == input.plan_id) {
    state.armed.reset();
    return;
  }
  // Applied while a stop was pending: the stop ends it at the next boundary.
  state.stopping = !state.armed;
}

// The window in force, or one that has ended.
MachinePlan* Stepper::FindBegun(PlanId MachinePlan::*field, PlanId plan_id) {
  if (state.window && (*state.window).*field == plan_id) return &*state.window;
  const auto found = std::find_if(state.draining.begin(), state.draining.end(),
                                  [&](const MachinePlan& plan) { return plan.*field == plan_id; });
  return found == state.draining.end() ? nullptr : &*found;
}

// The plan's continuation has begun.
void Stepper::Continue(MachinePlan* plan) {
  const MachinePlan next{std::exchange(plan->continuation, 0), plan->sha256, 0, plan->window, plan->paused};
  const bool in_force = state.window && plan == &*state.window;
  state.draining.push_back(in_force ? *std::exchange(state.window, next) : next);
}

void Stepper::DiscardContinuation(MachinePlan* plan) {
  if (plan->continuation != 0) actions.push_back(ReportSuperseded{std::exchange(plan->continuation, 0)});
}

void Stepper::operator()(const Finished& input) {
  MachinePlan* const plan = FindBegun(&MachinePlan::plan_id, input.plan_id);
  if (plan == nullptr) return;
  // A plan that waits to continue the window begins before any other.
  if (plan->continuation != 0 && input.reason == step::EndReason::kReplaced) return Continue(plan);
  DiscardContinuation(plan);
  if (!state.window || plan != &*state.window) return;
  state.draining.push_back(*std::exchange(state.window, std::nullopt));
  state.stopping = false;
}

void Stepper::operator()(const Drained& input) {
  const auto plan = std::find_if(state.draining.begin(), state.draining.end(),
                                 [&](const MachinePlan& each) { return each.plan_id == input.plan_id; });
  if (plan == state.draining.end()) return;
  const MachinePlan drained = *plan;
  state.draining.erase(plan);
  const bool complete = input.reason == step::EndReason::kTimes || input.reason == step::EndReason::kLimited;
  if (complete && state.in_file && state.returns && state.seen == drained.sha256 && !state.armed && !state.window) {
    state.has_returned = true;
    actions.push_back(LookAgain{});
    return;
  }
  if (state.dynamic && complete && !state.in_file && state.seen == drained.sha256) state.due = drained;
  WriteBackIfDue();
}

void Stepper::operator()(const WroteBack& input) {
  if (state.in_file) {  // the override stays in force
    if (*state.in_file == input.base_sha256) state.in_file = input.sha256;
    return;
  }
  if (state.seen != input.base_sha256) return;
  state.seen = input.sha256;
  state.refused = false;
  state.due.reset();
}

void Stepper::operator()(const FoundEdited& input) {
  if (state.in_file || state.seen != input.base_sha256) return;
  state.due = MachinePlan{input.plan_id, input.base_sha256};  // in case the edit is withdrawn before a look finds it
}

void Stepper::operator()(const Rejected& input) {
  if (input.plan_id == 0) state.stopping = false;
  if (!state.armed || state.armed->plan_id != input.plan_id) return;  // a newer edit has replaced it
  if (state.seen == state.armed->sha256) {
    state.refused = state.refused || !state.in_file;
    if (state.in_file) state.seen = *std::exchange(state.in_file, std::nullopt);  // as if the bytes had not been sent
  }
  state.armed.reset();
  std::erase_if(state.published, [&](const MachinePlan& plan) { return plan.plan_id == input.plan_id; });
}

void Stepper::operator()(const AgreedBytes& input) {
  state.next_plan_id = std::max(state.next_plan_id, input.plan_id);
  state.seen.clear();
  state.refused = false;
  (*this)(BytesSeen{input.sha256, input.intent});
}

void Stepper::operator()(const Renumbered& input) {
  state.next_plan_id = std::max(state.next_plan_id, input.next_plan_id);
  if (state.armed) Arm<PublishPlan>(std::string(state.armed->sha256));
}

// The armed plan is published again in any case: plans begin in the order of their ids.
void Stepper::operator()(const Recompiled& input) {
  if (input.in_force && state.window) {
    state.published.clear();  // none of them has begun or will begin
    DiscardContinuation(&*state.window);
    state.window->continuation = state.next_plan_id++;
    actions.push_back(ContinueWindow{state.window->continuation});
  }
  if (state.armed) Arm<RepublishPlan>(std::string(state.armed->sha256));
}

void Stepper::operator()(const Resampled& input) {
  state.next_plan_id = std::max(state.next_plan_id, input.plan_id + 1);
  if (!state.window || state.window->continuation != 0) return;
  state.window->continuation = input.plan_id;
  actions.push_back(ContinueWindow{input.plan_id});
}

void Stepper::operator()(const Discarded& input) {
  if (MachinePlan* plan = FindBegun(&MachinePlan::continuation, input.plan_id)) DiscardContinuation(plan);
}

void Stepper::operator()(const PauseRequested& input) {
  if (!state.window || state.window->paused == input.pause) return;
  if (input.pause && (state.stopping || (state.armed && !input.armed_waits))) return;
  state.window->paused = input.pause;
  actions.push_back(SetPause{state.window->window, input.pause});
}

// The window is over for good, so the file is written back as at any other end: the same text starts no window again.
void Stepper::operator()(const LimitReached&) {
  if (!state.armed && (!state.window || state.stopping)) return;
  if (state.dynamic && state.armed && !state.in_file && state.seen == state.armed->sha256) state.due = state.armed;
  state.armed.reset();
  state.stopping = state.window.has_value();
  actions.push_back(PublishStop{step::EndReason::kLimited});
  WriteBackIfDue();
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
