#include "src/drain/alert_manager.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "src/base/file.h"

namespace stepwatch::drain {
namespace {

std::vector<alerts::Rule> RulesOf(const config::Alert& alert) {
  std::vector<alerts::Rule> rules;
  for (const config::AlertRule& rule : alert.rules)
    if (const auto kind = alerts::RuleFromName(rule.rule_name)) rules.push_back({*kind, rule.threshold});
  return rules;
}

}  // namespace

std::string AnomalyDirectory(const std::string& output_base, int rank) {
  return base::JoinPath(output_base, "anomaly_detected/rank" + std::to_string(rank));
}

void AlertManager::BeginPlan(const plan::Plan& plan) noexcept {
  if (plan.rank_writes && plan.config.alert.dump) file_->EnsureExists();
}

void AlertManager::Look(const plan::Plan& plan, const AssembledFrame& frame) noexcept {
  try {
    if (rules_of_ != plan.layout.plan_id) {
      rules_ = RulesOf(plan.config.alert);
      rules_of_ = plan.layout.plan_id;
    }
    const std::vector<alerts::Alarm> alarms =
        evaluator_.Evaluate(rules_, plan.layout, StepFrame{frame.step, frame.records.data(), frame.records.size()});
    if (!alarms.empty()) Raise(plan, frame, alarms);
  } catch (const std::exception& error) {  // out of memory
    if (!std::exchange(judging_failed_, true)) ReportLostAlarms(frame.step, error.what());
  }
}

void AlertManager::Raise(const plan::Plan& plan, const AssembledFrame& frame,
                         const std::vector<alerts::Alarm>& alarms) {
  const size_t further = alarms.size() - std::min(alarms.size(), kReportedOfStepMax);
  AlarmsRaised raised{plan.layout.plan_id, frame.step, {}, further};
  for (size_t i = 0; i < alarms.size(); ++i) {
    const bool is_reported = i < kReportedOfStepMax;
    const bool kept = i < kKeptOfStepMax && plan.config.alert.dump && !file_full_;
    if (!is_reported && !kept) continue;
    const alerts::Alarm& alarm = alarms[i];
    const Record& record = frame.records[alarm.position];
    alerts::AlarmText text = alerts::TextOf(plan.layout, record, alarm, origin_.rank);
    if (kept) {
      entry_.clear();
      alerts::AppendAnomaly(plan.layout, record, alarm, origin_, text, &entry_);
      Keep(entry_);
    }
    if (is_reported) raised.sentences.push_back(std::move(text.sentence));
  }
  board_->Post(std::move(raised));
}

// The first alarms lead to the cause, so the file keeps those; when it is full, later alarms are still reported.
void AlertManager::Keep(const std::string& entry) {
  file_full_ = !file_->Add(entry);
  if (file_full_) ReportFileProblem(" is full; further alarms are reported but not written to it", "");
}

void AlertManager::Advance(Time now, bool now_or_never) noexcept {
  try {
    if (!file_->unsaved()) return;
    Status saved = file_->Advance(now, now_or_never);
    const bool was_failing = file_failing_;
    file_failing_ = file_->unsaved() && (!saved.ok() || was_failing);
    if (!saved.ok() && !was_failing) board_->Post(AnomalyFileFailed{std::move(saved)});
    if (!file_failing_ && was_failing) board_->Post(AnomalyFileRecovered{});
  } catch (const std::exception& error) {
    if (!std::exchange(file_failing_, true)) ReportFileProblem(" cannot be written now: ", error.what());
  }
}

void AlertManager::ReportLostAlarms(int64_t step, const char* why) noexcept {
  try {
    board_->PostDiagnostics(
        {"the alarms of step " + std::to_string(step) + ", and possibly of later steps, are lost: " + why});
  } catch (const std::bad_alloc&) {  // out of memory for the message: report the next time
    judging_failed_ = false;
  }
}

void AlertManager::ReportFileProblem(const char* what, const char* why) noexcept {
  try {
    board_->PostDiagnostics({file_->path() + what + why});
  } catch (const std::bad_alloc&) {  // out of memory for the message
  }
}

}  // namespace stepwatch::drain
