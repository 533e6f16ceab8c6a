// Keeps the budget: continues the window in force with another sampling, under a plan that is compiled again from the
// same bytes and waits in the slot like any other.
//
// Loop thread only. In a job of one process any newer change takes that plan out of the slot first. The ranks of a job
// agree on it, for a step; then it stays, and if a call of this rank's program comes in between, it is compiled again
// for that step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/ask/questions.h"
#include "controller/budget/budget_keeper.h"
#include "controller/budget/job_budget.h"
#include "controller/journal/run_journal.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/edit_reporter.h"
#include "controller/reload/plan_agreement.h"
#include "controller/reload/plan_controller.h"
#include "src/drain/status_board.h"
#include "src/step/data_plane.h"
#include "stepwatch/options.h"

namespace stepwatch::reload {

class Resampler final : public PlanAgreement::Samplings {
 public:
  // All of them must outlive the resampler.
  struct Dependencies {
    step::DataPlane* data_plane = nullptr;
    drain::StatusBoard* board = nullptr;
    PlanController* controller = nullptr;
    EditPipeline* pipeline = nullptr;
    journal::RunJournal* journal = nullptr;
    EditReporter* reports = nullptr;
  };

  // `can_ask`: the ranks of the job can send each other questions.
  Resampler(const Options& options, RunMode mode, bool can_ask, const Dependencies& dependencies);

  // Reads the measurements of the drain, and changes the sampling if the budget requires it.
  void OnMeasured();
  // Withdraws a plan of the budget that waits in the slot and has not begun.
  void Withdraw();
  // A newer edit has come. In a job whose ranks agree the plan stays.
  void OnNewEdit();
  // The collection ends: also drops the ranks' decision.
  void Drop();
  // The plan of the ranks' decision waits in the slot, or will as soon as no other plan continues the window.
  void ArmAgreed();
  // This rank's proposal for the budget of its window, requested by rank 0.
  budget::BudgetProposal Propose(const budget::BudgetQuestion& question);
  std::optional<status::BudgetStatus> View(const plan::Plan& plan) const { return budget_.View(plan); }
  // The plan of a new window is about to be submitted.
  void OnNewWindow() noexcept { pace_.BeginAnew(); }
  // A plan or a stop is about to be put into the slot.
  void OnPlacing(const step::PendingPlan& plan) noexcept;
  // Proposals that arrive later are ignored.
  void Stop() { is_stopped_ = true; }

  // PlanAgreement::Samplings
  Status TrySampling(const agree::Change& change) override;
  void OnSamplingAgreed(const agree::Change& change, int64_t at_step) override;
  void OnSamplingRejected(const agree::Decision& decision) override;

 private:
  // A decision of the ranks whose step has not come yet.
  struct AgreedSampling {
    budget::JobDecision decision;
    PlanId window = 0;   // the plan that began the window
    PlanId plan_id = 0;  // free on all ranks
    int64_t at_step = 0;
    PlanId armed = 0;          // the newest plan made from it
    bool is_followed = false;  // the governor follows it
  };

  // True if the plan is in force, and no other is on its way to the step thread.
  bool MayResample(PlanId plan_id) const;
  void Resample(PlanId plan_id, const budget::SamplingGovernor::Decision& decision);
  // Rank 0: sends the question to all ranks if it is due, for this plan.
  void RequestProposals(PlanId plan_id);
  void OnProposals(PlanId plan_id, const std::vector<ask::RankAnswer>& answers);
  // The window that came from these bytes, unless it is about to end; null: none.
  const MachinePlan* WindowFrom(const std::string& sha256) const;
  PlanId IdForAgreed() const;
  void ReportAgreed(const std::string& text, bool is_first);

  const RunMode mode_;
  step::DataPlane* const data_plane_;
  drain::StatusBoard* const board_;
  PlanController* const controller_;
  PlanRegistry& plans_;
  const MachineState& state_;
  EditPipeline* const pipeline_;
  journal::RunJournal* const journal_;
  EditReporter* const reports_;
  budget::BudgetKeeper budget_;
  budget::QuestionPace pace_;
  PlanId in_slot_ = 0;  // the newest plan of the budget in the slot; 0: a newer change came
  std::optional<AgreedSampling> agreed_;
  bool is_stopped_ = false;
};

}  // namespace stepwatch::reload
