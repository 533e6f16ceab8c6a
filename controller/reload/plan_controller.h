// Feeds the reload state machine and performs its decisions about plans: compiled plans become pending plans, which
// wait in the slot of the step thread, at once or once the ranks of the job have agreed. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller/reload/edit_pipeline.h"
#include "controller/reload/edit_reporter.h"
#include "controller/reload/machine.h"
#include "controller/reload/plan_agreement.h"
#include "controller/reload/plan_registry.h"
#include "controller/reload/row_output.h"
#include "controller/reload/run_mode.h"
#include "src/step/data_plane.h"
#include "src/step/pending_plan.h"

namespace stepwatch::reload {

class PlanController {
 public:
  // Calls of the other parts of the loop. Only `on_not_begun` and `write_back` may throw.
  struct Callbacks {
    std::function<void()> on_seen;                             // new bytes
    std::function<void()> on_not_begun;                        // they request a window that was done before
    std::function<void(const plan::Plan&)> on_new_window;      // its plan is about to be submitted
    std::function<void(const step::PendingPlan&)> on_placing;  // it is about to be put into the slot
    std::function<void(const WriteBack&)> write_back;
    std::function<void()> look_again;
    std::function<void()> on_fed;  // the actions of an input were performed
  };

  // The pointers and the options must outlive the controller.
  PlanController(const Options& options, RunMode mode, step::DataPlane* data_plane, drain::Drain* drain,
                 EditReporter* reports, RowOutput* output, Callbacks callbacks);

  // Feeds the input to the machine and performs its actions. A throw leaves the state unchanged.
  void Feed(const Input& input);
  // If the step thread has begun a plan and the drain has not reported that yet, feeds it to the machine.
  void FeedBegun();

  RunMode mode() const { return mode_; }
  const MachineState& state() const { return state_; }
  // The edit made from the bytes that were seen last.
  const Edit& current() const { return current_; }
  Edit* mutable_current() { return &current_; }
  PlanRegistry& plans() { return plans_; }
  // Null: this process decides alone.
  PlanAgreement* agreement() const { return agreement_; }
  void SetAgreement(PlanAgreement* agreement) { agreement_ = agreement; }
  bool undecided() const { return agreement_ != nullptr && agreement_->undecided(); }
  // The model is known, and edits are applied.
  bool is_attached() const { return is_attached_; }
  void SetAttached() { is_attached_ = true; }
  // The armed plan waits for a step later than the next.
  bool ArmedWaits() const;
  // The step for which the plan waits, or with which it began; -1: unknown, or the ranks have not agreed on one.
  int64_t StepOf(PlanId plan_id) const;

  // A plan or a stop waits in the slot from now on, for its at_step. Takes ownership unless it throws.
  void PutInSlot(std::unique_ptr<step::PendingPlan>&& plan);
  // A plan of this edit, which continues the window by this input, waits in the slot. `at_step` 0: the earliest
  // boundary, so the step thread never puts it back.
  void PutContinuation(const Input& input, const Edit& edit, int64_t at_step);
  // The plan that the last input has made to continue the window; null: none.
  std::unique_ptr<step::PendingPlan> TakeContinuation() { return std::move(continuation_); }

 private:
  template <class ReportAction>
  void Report(const ReportAction& action);
  void Perform(const PublishPlan& action);
  void Perform(const RepublishPlan& action);
  void Perform(const ContinueWindow& action);
  void Perform(const PublishStop& action);
  void Perform(const SetPause& action);
  std::unique_ptr<step::PendingPlan> PendingOf(PlanId plan_id);

  const RunMode mode_;
  step::DataPlane* const data_plane_;
  EditReporter* const reports_;
  RowOutput* const output_;
  const Callbacks callbacks_;
  PlanAgreement* agreement_ = nullptr;
  MachineState state_;
  Edit current_;
  PlanRegistry plans_;
  std::unique_ptr<step::PendingPlan> continuation_;
  struct {
    PlanId plan_id = 0;
    int64_t at_step = -1;
  } in_slot_;  // the newest one that was put there
  bool is_attached_ = false;
};

}  // namespace stepwatch::reload
