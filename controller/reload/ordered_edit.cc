#include "controller/reload/ordered_edit.h"

#include <utility>

#include "controller/watch/file_snapshot.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::reload {
namespace {

using writeback::WriteBackOutcome;

OrderOutcome Failed(OrderOutcome::Kind kind, std::string message, TextPlace place = {}) {
  OrderOutcome outcome;
  outcome.kind = kind;
  outcome.message = std::move(message);
  outcome.place = std::move(place);
  return outcome;
}

// Ok: this process would accept the text.
Status Check(const std::string& text, int64_t at_step, EditPipeline* pipeline, PlanId plan_id) {
  Edit edit = pipeline->Parse(base::Sha256Hex(text), text);
  const EditIntent intent = pipeline->Classify(&edit, plan_id);
  return intent == EditIntent::kRefused ? edit.refusal : WhyNoStep(intent, at_step);
}

OrderOutcome OutcomeOf(const writeback::WriteBackResult& result, const std::string& if_match_sha256) {
  OrderOutcome outcome;
  outcome.method = result.method;
  outcome.message = result.message;
  outcome.found_sha256 = result.found_sha256;
  outcome.sha256 = result.sha256;
  switch (result.outcome) {
    case WriteBackOutcome::kWritten:
    case WriteBackOutcome::kUnchanged: outcome.kind = OrderOutcome::Kind::kDone; break;
    case WriteBackOutcome::kEdited:
      outcome.kind = if_match_sha256.empty() || result.found_sha256 == if_match_sha256 ? OrderOutcome::Kind::kEdited
                                                                                       : OrderOutcome::Kind::kConflict;
      break;
    case WriteBackOutcome::kRefused: outcome.kind = OrderOutcome::Kind::kInvalid; break;
    case WriteBackOutcome::kImpossible: outcome.kind = OrderOutcome::Kind::kUnwritable; break;
  }
  outcome.is_written = result.outcome == WriteBackOutcome::kWritten;
  if (outcome.kind == OrderOutcome::Kind::kDone) outcome.message.clear();
  return outcome;
}

OrderOutcome Replace(const std::string& path, const EditOrder& order, EditPipeline* pipeline, PlanId plan_id,
                     base::FileSystem& files, writeback::WriteBackResult* result) {
  const Status refusal = Check(order.text, order.at_step, pipeline, plan_id);
  if (!refusal.ok())
    return Failed(OrderOutcome::Kind::kInvalid, refusal.message() + "; nothing was changed", refusal.place());
  *result = writeback::ReplaceConfig(path, order.if_match_sha256, order.text, files);
  return OutcomeOf(*result, order.if_match_sha256);
}

OrderOutcome Switch(const std::string& path, const EditOrder& order, EditPipeline* pipeline, PlanId plan_id,
                    base::FileSystem& files, writeback::WriteBackResult* result) {
  const bool on = order.kind == EditOrder::Kind::kStart;
  const watch::FileSnapshot file = watch::TakeSnapshot(path, files);
  if (file.kind == watch::SnapshotKind::kUnstable)
    return Failed(OrderOutcome::Kind::kEdited, base::Printable(path, 200) + " changes while it is read");
  if (file.kind != watch::SnapshotKind::kBytes)
    return Failed(OrderOutcome::Kind::kInvalid, file.error + "; nothing was changed");
  const std::string& expected = order.if_match_sha256.empty() ? file.sha256 : order.if_match_sha256;
  if (expected == file.sha256) {
    const Result<std::string> text = config::SpliceDynamicOn(file.bytes, on);
    const Status refusal = text.ok() ? Check(text.value(), 0, pipeline, plan_id) : text.status();
    if (!refusal.ok())
      return Failed(OrderOutcome::Kind::kInvalid, refusal.message() + "; nothing was changed", refusal.place());
  }
  *result = writeback::SetDynamicOn(path, expected, on, files);
  return OutcomeOf(*result, order.if_match_sha256);
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

OrderOutcome MakeOrderedEdit(const std::string& path, const EditOrder& order, EditPipeline* pipeline, PlanId plan_id,
                             base::FileSystem& files, writeback::WriteBackResult* result) {
  result->outcome = WriteBackOutcome::kRefused;  // unless a change of the file is tried
  const auto make = order.kind == EditOrder::Kind::kReplace ? Replace : Switch;
  return make(path, order, pipeline, plan_id, files, result);
}

}  // namespace stepwatch::reload
