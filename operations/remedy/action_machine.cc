#include "operations/remedy/action_machine.h"

#include <utility>

namespace stepwatch::operations::remedy {
namespace {

using State = ActionState;

class Stepper {
 public:
  Stepper(Action action, const ActionTimes& times, double now) : times_(times), now_(now) {
    out_.action = std::move(action);
  }

  void operator()(const GuardsRead& guards) {
    if (action().state != State::kNew) return;
    if (guards.hold) return Enter(State::kGuarded, "");
    if (action().why == guards.why) return;
    action().why = guards.why;
    out_.is_changed = true;
  }

  void operator()(const Approved& approval) {
    if (action().state != State::kGuarded || !action().needs_approval) return;
    Sign(approval.by, approval.note);
    Enter(State::kApproved, "");
  }

  void operator()(const Rejected& rejection) {
    if (action().state != State::kNew && action().state != State::kGuarded) return;
    Sign(rejection.by, rejection.note);
    Enter(State::kRejected, "");
  }

  void operator()(const Ended& end) {
    if (action().state == State::kRunning) {
      if (!end.before.empty()) action().before = end.before;
      if (!end.after.empty()) action().after = end.after;
      Enter(end.ok ? State::kVerifying : State::kFailed, end.why);
    } else if (action().state == State::kRollingBack) {
      Enter(end.ok ? State::kRolledBack : State::kFailed, end.ok ? end.why : "the way back failed: " + end.why);
    }
  }

  void operator()(const Verified& verdict) {
    if (action().state != State::kVerifying && action().state != State::kUnknown) return;
    action().verified = verdict.ok;
    Enter(verdict.ok ? State::kDone : State::kFailed, verdict.why);
  }

  void operator()(const TriggerOver&) {
    switch (action().state) {
      case State::kNew:
      case State::kGuarded:
      case State::kApproved: return Enter(State::kExpired, "its trigger is over");
      case State::kDone:
        if (times_.returns && !action().is_shadow) Enter(State::kRollingBack, "its trigger is over");
        return;
      default: return;
    }
  }

  void operator()(const Restarted&) {
    switch (action().state) {
      case State::kRunning: return Enter(State::kUnknown, "stepwatchd restarted while it ran; it is not started again");
      case State::kRollingBack:
        return Enter(State::kFailed, "stepwatchd restarted during the way back, which is not taken again");
      case State::kVerifying: out_.effects.push_back(Effect::kVerify); return;
      case State::kUnknown: out_.effects.push_back(Effect::kVerify); return;
      default: return;
    }
  }

  void operator()(const Tick&) {
    const double age = now_ - action().state_t;
    switch (action().state) {
      case State::kNew:
      case State::kGuarded:
        if (now_ - action().created_t > times_.expires)
          Enter(State::kExpired, action().state == State::kNew ? "its guards did not hold: " + action().why
                                                               : std::string("it was not approved in time"));
        return;
      case State::kApproved: return Enter(State::kRunning, "");
      case State::kRunning:
      case State::kRollingBack:
        if (age > times_.runs) Enter(State::kFailed, "it did not end in time");
        return;
      case State::kVerifying:
      case State::kUnknown:
        if (age > times_.verifies) (*this)(Verified{false, "no effect showed in time"});
        return;
      default: return;
    }
  }

  ActionTransition Finish() { return std::move(out_); }

 private:
  Action& action() { return out_.action; }

  void Sign(const std::string& by, const std::string& note) {
    action().actor = by;
    action().note = note;
  }

  void Enter(State state, std::string why) {
    action().state = state;
    action().state_t = now_;
    action().why = std::move(why);
    out_.is_changed = true;
    switch (state) {
      case State::kGuarded:
        if (action().is_shadow) return Enter(State::kShadowed, "shadow mode");
        if (!action().needs_approval) return Enter(State::kApproved, "");
        return out_.effects.push_back(Effect::kReport);
      case State::kRunning: return out_.effects.push_back(Effect::kStart);
      case State::kVerifying: return out_.effects.push_back(Effect::kVerify);
      case State::kUnknown: out_.effects.push_back(Effect::kVerify); return out_.effects.push_back(Effect::kReport);
      case State::kRollingBack: return out_.effects.push_back(Effect::kRollBack);
      case State::kFailed:
      case State::kDone:
      case State::kRolledBack: return out_.effects.push_back(Effect::kReport);
      default: return;
    }
  }

  const ActionTimes& times_;
  const double now_;
  ActionTransition out_;
};

}  // namespace

ActionTransition Step(Action action, const ActionInput& input, const ActionTimes& times, double now) {
  Stepper stepper(std::move(action), times, now);
  std::visit(stepper, input);
  return stepper.Finish();
}

}  // namespace stepwatch::operations::remedy
