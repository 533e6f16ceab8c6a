// What the drain does about alarms: judges every step frame once, tells what was found, keeps it in anomaly.json.
//
// Drain thread only. Nothing here throws, and no trouble here reaches the sinks: a frame that cannot be judged, or a
// file that cannot be written, is told and left behind.
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
  // Alarms of one step that are told one by one, and that are kept in the file; the others are counted. When a model
  // has turned to NaN all its values are alarms, and rows wait while those are put into words.
  static constexpr size_t kToldOfStepMax = 1000;
  static constexpr size_t kKeptOfStepMax = 5000;

  // `file` is written to while a plan asks for it.
  AlertManager(alerts::AlarmOrigin origin, std::unique_ptr<output::AnomalyFile> file, StatusBoard* board)
      : origin_(std::move(origin)), file_(std::move(file)), board_(board) {}

  void BeginPlan(const plan::Plan& plan) noexcept;
  // Frames in step order, each once.
  void Look(const plan::Plan& plan, const AssembledFrame& frame) noexcept;
  void EndPlan() noexcept { file_->Hasten(); }

  // Saves the file when it is due.
  void Advance(Time now, bool now_or_never) noexcept;
  std::optional<Time> due_at() const { return file_->due_at(); }
  bool unsaved() const { return file_->unsaved(); }

 private:
  void Raise(const plan::Plan& plan, const AssembledFrame& frame, const std::vector<alerts::Alarm>& alarms);
  void Keep(const std::string& entry);
  void TellLostAlarms(int64_t step, const char* why) noexcept;
  void TellFileProblem(const char* what, const char* why) noexcept;

  const alerts::AlarmOrigin origin_;
  const std::unique_ptr<output::AnomalyFile> file_;
  StatusBoard* const board_;
  alerts::RuleEvaluator evaluator_;
  std::vector<alerts::Rule> rules_;  // of the plan `rules_of_`
  PlanId rules_of_ = 0;
  std::string entry_;  // for its memory
  bool file_failing_ = false;
  bool file_full_ = false;
  bool judging_failed_ = false;
};

}  // namespace stepwatch::drain
