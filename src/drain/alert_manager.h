// Alarm handling of the drain: evaluates every step frame once, reports alarms, and keeps them in anomaly.json.
//
// Drain thread only. No call throws, and no fault here affects the sinks: a frame that cannot be evaluated, or a file
// that cannot be written, is reported and skipped.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/alerts/alarm_text.h"
#include "src/alerts/rule_evaluator.h"
#include "src/drain/frame_assembler.h"
#include "src/drain/status_board.h"
#include "src/output/anomaly_file.h"
#include "src/plan/plan.h"

namespace stepwatch::drain {

// {base}/anomaly_detected/rank{R}
std::string AnomalyDirectory(const std::string& output_base, int rank);

class AlertManager {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Limits of alarms per step that are reported one by one, and that are kept in the file; further ones are only
  // counted. When a model has diverged to NaN all its values are alarms, and rows wait while their texts are built.
  static constexpr size_t kReportedOfStepMax = 1000;
  static constexpr size_t kKeptOfStepMax = 5000;

  // `file` is written while a plan enables it.
  AlertManager(alerts::AlarmOrigin origin, std::unique_ptr<output::AnomalyFile> file, StatusBoard* board)
      : origin_(std::move(origin)), file_(std::move(file)), board_(board) {}

  void BeginPlan(const plan::Plan& plan) noexcept;
  // Must see each frame once, in step order.
  void Look(const plan::Plan& plan, const AssembledFrame& frame) noexcept;
  void EndPlan() noexcept { file_->Hasten(); }

  // Saves the file if due.
  void Advance(Time now, bool now_or_never) noexcept;
  std::optional<Time> due_at() const { return file_->due_at(); }
  bool unsaved() const { return file_->unsaved(); }

 private:
  void Raise(const plan::Plan& plan, const AssembledFrame& frame, const std::vector<alerts::Alarm>& alarms);
  void Keep(const std::string& entry);
  void ReportLostAlarms(int64_t step, const char* why) noexcept;
  void ReportFileProblem(const char* what, const char* why) noexcept;

  const alerts::AlarmOrigin origin_;
  const std::unique_ptr<output::AnomalyFile> file_;
  StatusBoard* const board_;
  alerts::RuleEvaluator evaluator_;
  std::vector<alerts::Rule> rules_;  // of the plan `rules_of_`
  PlanId rules_of_ = 0;
  std::string entry_;  // reuses its memory
  bool file_failing_ = false;
  bool file_full_ = false;
  bool judging_failed_ = false;
};

}  // namespace stepwatch::drain
