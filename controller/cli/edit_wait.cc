#include "controller/cli/edit_wait.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "controller/cli/read_json.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

bool IsQuiet(const std::string& state) {
  return state == "IDLE" || state == "OFF" || state == "FAILED";
}

}  // namespace

EditWait::EditWait(Goal goal, const Json& change, Verb verb)
    : goal_(goal),
      sha256_(Text(change, "sha256")),
      is_stop_(verb == Verb::kStop || Text(change, "taken") == "stopping" || Text(change, "taken") == "off"),
      plan_id_(Count(change, "plan_id")),
      is_told_of_(Text(change, "taken") == "running") {
  const std::string taken = Text(change, "taken");
  if (taken == "refused") Fail("refused: " + Text(Part(change, "refusal"), "message"));
  if (taken == "superseded") Fail("a newer edit was saved");
  const bool is_over = goal == Goal::kApplied || (goal == Goal::kStopped && taken == "off");
  if (!end_ && is_stop_ && is_over) end_ = End::kReached;  // there is nothing to apply, or nothing in force
}

void EditWait::Fail(const std::string& why) {
  end_ = End::kFailed;
  why_ = why;
}

std::vector<std::string> EditWait::OnEvent(const std::string& name, const Json& event) {
  if (end_) return {};
  const std::string message = Text(event, "message");
  if (name == "gap") is_told_of_ = true;
  if (name == "refused" && Text(event, "sha256") == sha256_) {
    Fail("refused: " + message);
    return {why_};
  }
  if (plan_id_ == 0 || Count(event, "plan") != plan_id_) return {};
  if (name == "aborted") {
    is_aborted_ = true;
    why_ = "the ranks did not agree: " + message;
    return {why_ + "; retrying"};
  }
  if (name == "superseded") {
    is_superseded_ = true;
    why_ = "superseded: " + message;
    return {};
  }
  if (name == "applied") {
    is_aborted_ = false;
    is_told_of_ = true;
    facts_["applied_step"] = Count(event, "step");
    return {fmt::format("plan {} applied: first step {}", plan_id_, Count(event, "step"))};
  }
  if (name == "finished") {
    is_finished_ = true;
    return {fmt::format("plan {} finished: {}", plan_id_, message)};
  }
  if (name != "drained") return {};
  is_drained_ = true;
  const Json& ledger = Part(event, "ledger");
  facts_["collected_steps"] = Count(event, "collected_steps");
  facts_["ledger"] = ledger;
  return {fmt::format("plan {} drained: {} of {} rows written", plan_id_, Count(ledger, "written"),
                      Count(ledger, "produced"))};
}

uint64_t EditWait::PlanIn(const Json& status) const {
  for (const char* name : {"armed", "plan"}) {
    const Json& plan = Part(status, name);
    if (Text(plan, "config_sha256") == sha256_) return Count(plan, "plan_id");
  }
  return 0;
}

bool EditWait::IsStopOver(const std::string& state) const {
  if (goal_ == Goal::kStopped && (is_finished_ || is_drained_ || state == "DRAINING")) return true;
  if (plan_id_ != 0 && goal_ != Goal::kStopped) return is_drained_;
  return IsQuiet(state);
}

std::vector<std::string> EditWait::OnStatus(const Json& status) {
  if (end_) return {};
  if (is_stop_) {
    if (IsStopOver(Text(status, "state"))) end_ = End::kReached;
    return {};
  }
  // The plan of an edit gets a new number when the model grows, or a rank has used the old one.
  const uint64_t plan_id = PlanIn(status);
  std::vector<std::string> lines;
  if (plan_id != 0 && plan_id != plan_id_) {
    plan_id_ = plan_id;
    is_drained_ = is_superseded_ = false;
    lines.push_back(fmt::format("compiled as plan {}", plan_id));
  }
  const bool is_ours = !is_superseded_ && (plan_id != 0 || Text(status, "file_sha256") == sha256_);
  const Json& plan = Part(status, "plan");
  const bool is_in_force = plan_id_ != 0 && Count(plan, "plan_id") == plan_id_;
  const bool writes_nothing = is_in_force && Count(plan, "rows_per_step") == 0 && Count(status, "collected") > 0;
  if (!has_rows_ && plan_id_ != 0 && (Count(status, "written_plan_id") == plan_id_ || writes_nothing)) {
    has_rows_ = true;
    lines.push_back(writes_nothing ? "this rank writes no rows" : "rows of the first collected step written");
  }
  if (is_drained_ || (goal_ == Goal::kApplied && has_rows_ && is_told_of_))
    end_ = End::kReached;
  else if (is_superseded_)
    Fail(why_);
  else if (plan_id_ == 0 && !is_ours)
    Fail("a newer edit was saved");
  return lines;
}

void EditWait::OnGone() {
  if (!end_ && (is_drained_ || (is_finished_ && goal_ == Goal::kStopped))) end_ = End::kReached;
}

}  // namespace stepwatch::cli
