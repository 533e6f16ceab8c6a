// Reports edits and plans as events, in the history and in the manifest, and keeps the result of the newest look. Loop
// thread only, except for the counters.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "controller/journal/edit_history.h"
#include "controller/journal/run_journal.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/machine.h"
#include "controller/reload/plan_agreement.h"
#include "controller/reload/run_mode.h"
#include "controller/status/job_status.h"
#include "src/config/config.h"
#include "stepwatch/event.h"
#include "stepwatch/monitor.h"

namespace stepwatch::reload {

class PlanController;

class EditReporter final : public PlanAgreement::Reporter {
 public:
  // The pointers must outlive the reporter; the controller may be made after it.
  EditReporter(RunMode mode, std::string config_path, const PlanController* controller, journal::RunJournal* journal,
               journal::EditHistory* history, std::function<void(Event)> emit);

  void Emit(Event event) { emit_(std::move(event)); }
  void Emit(EventKind kind, std::string message, PlanId plan_id = 0) override;
  // A key without effect is reported once in a run.
  void Warn(const std::vector<config::Warning>& warnings);
  bool IsFirstWarningOf(const std::string& key) { return reported_keys_.insert(key).second; }

  void Report(const ReportSeen&);
  void Report(const ReportRefused&);
  void Report(const ReportLost& lost);
  void Report(const ReportRestored&);
  void Report(const ReportStopping&);
  void Report(const ReportSuperseded& superseded);
  // Rank 0: the ranks do not apply the change.
  void ReportRejected(const agree::Change& change, const std::string& why);
  void EmitSuperseded(PlanId plan_id, const char* why) noexcept;
  // `source`: the edit from which the plan came; null: unknown.
  void ReportArmed(const plan::Plan& plan, const Edit* source, const std::string& when) noexcept;

  // The content of the file could not be applied; this is retried.
  void ReportFault(const std::string& what) override;
  void EndFault() override;
  const std::string& fault() const { return fault_; }  // empty: the newest edit is applied

  // A look at the file begins.
  void OnRefresh() { outcome_ = RefreshOutcome::kUnchanged; }
  RefreshOutcome outcome() const { return outcome_; }
  // The reason why the last look without bytes found none.
  void SetLookError(const std::string& error) { look_error_ = error; }
  const std::string& look_error() const { return look_error_; }
  // Edits that were refused. Any thread.
  status::RefusalCounts refusals() const {
    const auto of = [&](RefusalReason reason) { return refusals_[static_cast<size_t>(reason)].load(); };
    return {of(RefusalReason::kSyntax), of(RefusalReason::kValue), of(RefusalReason::kLimit), of(RefusalReason::kRank)};
  }

 private:
  const RunMode mode_;
  const std::string config_path_;
  const PlanController* const controller_;
  journal::RunJournal* const journal_;
  journal::EditHistory* const history_;
  const std::function<void(Event)> emit_;
  RefreshOutcome outcome_ = RefreshOutcome::kUnchanged;
  std::string fault_;
  std::string look_error_;
  std::set<std::string> reported_keys_;
  std::array<std::atomic<uint64_t>, kRefusalReasonCount> refusals_{};
};

}  // namespace stepwatch::reload
