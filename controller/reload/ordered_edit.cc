#include "controller/reload/ordered_edit.h"

#include <utility>

#include "controller/watch/file_snapshot.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::reload {
namespace {

using status::ChangeReport;
using status::ConfigChange;
using writeback::WriteBackOutcome;

ChangeReport Failed(ChangeReport::Outcome outcome, std::string message, TextPlace place = {}) {
  ChangeReport report;
  report.outcome = outcome;
  report.message = std::move(message);
  report.place = std::move(place);
  return report;
}

// Ok: this process would accept the text.
Status Check(const std::string& text, int64_t at_step, EditPipeline* pipeline, PlanId plan_id) {
  Edit edit = pipeline->Parse(base::Sha256Hex(text), text);
  const EditIntent intent = pipeline->Classify(&edit, plan_id);
  return intent == EditIntent::kRefused ? edit.refusal : WhyNoStep(intent, at_step);
}

ChangeReport ReportOf(const writeback::WriteBackResult& result, const std::string& if_match) {
  using Outcome = ChangeReport::Outcome;
  ChangeReport report;
  report.method = result.method;
  report.message = result.message;
  report.replaced_sha256 = result.found_sha256;
  report.sha256 = result.sha256;
  switch (result.outcome) {
    case WriteBackOutcome::kWritten: report.outcome = Outcome::kWritten; break;
    case WriteBackOutcome::kUnchanged: report.outcome = Outcome::kUnchanged; break;
    case WriteBackOutcome::kEdited:
      report.outcome = if_match.empty() || result.found_sha256 == if_match ? Outcome::kEdited : Outcome::kConflict;
      break;
    case WriteBackOutcome::kRefused: report.outcome = Outcome::kInvalid; break;
    case WriteBackOutcome::kImpossible: report.outcome = Outcome::kUnwritable; break;
  }
  if (report.is_done()) report.message.clear();
  return report;
}

ChangeReport Replace(const std::string& path, const ConfigChange& change, EditPipeline* pipeline, PlanId plan_id,
                     base::FileSystem& files, writeback::WriteBackResult* result) {
  const Status refusal = Check(change.text, change.at_step, pipeline, plan_id);
  if (!refusal.ok())
    return Failed(ChangeReport::Outcome::kInvalid, refusal.message() + "; nothing was changed", refusal.place());
  *result = writeback::ReplaceConfig(path, change.if_match, change.text, files);
  return ReportOf(*result, change.if_match);
}

ChangeReport Switch(const std::string& path, const ConfigChange& change, EditPipeline* pipeline, PlanId plan_id,
                    base::FileSystem& files, writeback::WriteBackResult* result) {
  const bool on = change.verb == ConfigChange::Verb::kStart;
  const watch::FileSnapshot file = watch::TakeSnapshot(path, files);
  if (file.kind == watch::SnapshotKind::kUnstable)
    return Failed(ChangeReport::Outcome::kEdited, base::Printable(path, 200) + " changes while it is read");
  if (file.kind != watch::SnapshotKind::kBytes)
    return Failed(ChangeReport::Outcome::kInvalid, file.error + "; nothing was changed");
  const std::string& expected = change.if_match.empty() ? file.sha256 : change.if_match;
  if (expected == file.sha256) {
    const Result<std::string> text = config::SpliceDynamicOn(file.bytes, on);
    const Status refusal = text.ok() ? Check(text.value(), 0, pipeline, plan_id) : text.status();
    if (!refusal.ok())
      return Failed(ChangeReport::Outcome::kInvalid, refusal.message() + "; nothing was changed", refusal.place());
  }
  *result = writeback::SetDynamicOn(path, expected, on, files);
  return ReportOf(*result, change.if_match);
}

}  // namespace

int64_t OrderedStep::Take(const std::string& sha256) {
  const bool is_ordered = expected_.sha256 == sha256;
  const int64_t at_step = is_ordered ? expected_.at_step : 0;
  if (is_ordered || expected_.is_looked_at) Clear();
  return at_step;
}

void OrderedStep::OnLooked(const std::string& seen) {
  expected_.is_looked_at = true;
  if (expected_.sha256 == seen) Clear();
}

Status WhyNoStep(EditIntent intent, int64_t at_step) {
  if (at_step <= 0 || intent == EditIntent::kRun || intent == EditIntent::kRefused) return Status();
  return Status(
      StatusCode::kInvalid,
      "a step to begin at requires a config that collects; this config ends the collection, at the next step. "
      "Apply it without a step");
}

ChangeReport MakeOrderedEdit(const std::string& path, const ConfigChange& change, EditPipeline* pipeline,
                             PlanId plan_id, base::FileSystem& files, writeback::WriteBackResult* result) {
  result->outcome = WriteBackOutcome::kRefused;  // unless a change of the file is tried
  const auto make = change.verb == ConfigChange::Verb::kApply ? Replace : Switch;
  return make(path, change, pipeline, plan_id, files, result);
}

}  // namespace stepwatch::reload
