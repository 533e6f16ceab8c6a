#include "controller/reload/resampler.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "src/base/ignore_exceptions.h"

namespace stepwatch::reload {
namespace {

using base::IgnoreExceptions;

// A rank without a proposal by then counts as missing.
constexpr std::chrono::milliseconds kAnswerTime{2000};

// The ranks of a job collect the same steps.
std::string WhyBudgetDoesNotAct(const Options& options, bool dynamic, bool can_ask) {
  if (options.world_size <= 1 || (options.store && dynamic && can_ask)) return "";
  return fmt::format(
      "the ranks of a job must collect the same steps, and {} these {} cannot agree on them: the cost of measuring "
      "is reported, and the sampling is not reduced",
      dynamic ? "without a store" : "in static mode", options.world_size);
}

}  // namespace

Resampler::Resampler(const Options& options, RunMode mode, bool can_ask, const Dependencies& dependencies)
    : mode_(mode),
      data_plane_(dependencies.data_plane),
      board_(dependencies.board),
      controller_(dependencies.controller),
      plans_(controller_->plans()),
      state_(controller_->state()),
      pipeline_(dependencies.pipeline),
      journal_(dependencies.journal),
      reports_(dependencies.reports),
      budget_(WhyBudgetDoesNotAct(options, mode.dynamic, can_ask),
              [reports = reports_](EventKind kind, std::string message, PlanId id) {
                reports->Emit(kind, std::move(message), id);
              }) {}

void Resampler::OnMeasured() {
  for (const drain::StepsMeasured& measured : board_->TakeMeasured()) {
    const Edit* edit = plans_.Find(measured.plan_id);
    if (edit == nullptr || edit->compiled.plan == nullptr) continue;  // its window is over
    const auto decision = budget_.OnMeasured(measured, *edit->compiled.plan, MayResample(measured.plan_id));
    if (!mode_.agrees()) {
      if (decision) Resample(measured.plan_id, *decision);
    } else if (mode_.reads_the_file) {
      pace_.Collected(measured.cost.collected, decision);
      RequestProposals(measured.plan_id);
    }
  }
  ArmAgreed();
}

// True if the plan is in force, and no other is on its way to the step thread.
bool Resampler::MayResample(PlanId plan_id) const {
  return state_.window && state_.window->plan_id == plan_id && state_.window->continuation == 0 && !state_.armed &&
         !state_.stopping && state_.published.empty() && data_plane_->plans.plan_id() == plan_id && !agreed_ &&
         !controller_->undecided();
}

void Resampler::Resample(PlanId plan_id, const budget::SamplingGovernor::Decision& decision) {
  const Edit before = plans_.Source(plan_id);
  Edit edit = before;
  edit.sampling = decision.sampling;
  const PlanId id = state_.next_plan_id;
  if (!pipeline_->Compile(&edit, id)) return;
  edit.compiled.warnings.clear();  // already reported
  controller_->PutContinuation(Recompiled{}, edit, 0);
  in_slot_ = id;
  budget_.Follow(decision, *before.compiled.plan);
  const std::string text = budget::BudgetKeeper::TextOf(decision, *before.compiled.plan);
  IgnoreExceptions([&] { journal_->Update(id, [&](output::ManifestPlan& plan) { plan.budget->decision = text; }); });
  IgnoreExceptions([&] { reports_->Emit(EventKind::kNote, text, id); });
}

// A plan that is no longer in the slot has begun, or its window has ended at the boundary at which it was to begin; the
// drain reports which.
void Resampler::Withdraw() {
  if (in_slot_ == 0) return;
  const PlanId id = std::exchange(in_slot_, 0);
  if (data_plane_->plans.slot().Publish(nullptr) != nullptr) controller_->Feed(Discarded{id});
}

void Resampler::OnNewEdit() {
  if (!mode_.agrees()) Withdraw();
}

void Resampler::Drop() {
  agreed_.reset();
  Withdraw();
}

void Resampler::OnPlacing(const step::PendingPlan& plan) noexcept {
  in_slot_ = 0;
  if (!std::holds_alternative<step::Continue>(plan.effect)) agreed_.reset();
}

// --- ranks of a job ---

void Resampler::RequestProposals(PlanId plan_id) {
  ask::Questions* const questions = controller_->agreement()->questions();
  if (questions == nullptr || !MayResample(plan_id)) return;
  if (!pace_.IsDue(std::chrono::steady_clock::now())) return;
  pace_.Sent();
  const Edit& running = plans_.Source(plan_id);
  try {
    questions->Ask(budget::BudgetQuestionText(running.sha256, running.sampling), kAnswerTime,
                   [this, plan_id](const Result<std::vector<ask::RankAnswer>>& answers) {
                     pace_.Answered(std::chrono::steady_clock::now());
                     if (answers.ok()) IgnoreExceptions([&] { OnProposals(plan_id, answers.value()); });
                   });
  } catch (...) {
    pace_.Answered(std::chrono::steady_clock::now());
    throw;
  }
}

void Resampler::OnProposals(PlanId plan_id, const std::vector<ask::RankAnswer>& answers) {
  if (is_stopped_ || !MayResample(plan_id)) return;
  const Edit running = plans_.Source(plan_id);
  std::vector<budget::BudgetProposal> proposals;
  for (const ask::RankAnswer& each : answers)
    proposals.push_back(each.trouble.empty() ? budget::BudgetProposalFrom(each.text_untrusted)
                                             : budget::BudgetProposal());
  const std::optional<budget::JobDecision> decision = budget::Combine(proposals, running.sampling);
  if (!decision) return;
  const bool votes = running.parsed.value().config.own.coordination == config::Coordination::kStrict;
  const std::string why_not = budget::WhyNotDone(proposals, votes);
  if (!why_not.empty()) return budget_.SetTrouble(why_not, *running.compiled.plan);
  const PlanId id = state_.next_plan_id;
  controller_->Feed(Renumbered{id + 1});  // no plan is armed: the id is kept free for it
  controller_->agreement()->ProposeSampling(Encode(*decision), id, running);
}

budget::BudgetProposal Resampler::Propose(const budget::BudgetQuestion& question) {
  controller_->FeedBegun();
  const MachinePlan* const window = WindowFrom(question.sha256);
  if (window == nullptr)
    return {state_.armed && state_.armed->sha256 == question.sha256 ? budget::BudgetProposal::Kind::kStay
                                                                    : budget::BudgetProposal::Kind::kNone,
            {}};
  const Edit& running = plans_.Source(window->plan_id);
  if (running.sampling != question.in_force) return {budget::BudgetProposal::Kind::kStay, {}};
  return budget_.Propose(*running.compiled.plan);
}

const MachinePlan* Resampler::WindowFrom(const std::string& sha256) const {
  if (!state_.window || state_.stopping) return nullptr;
  return plans_.Source(state_.window->plan_id).sha256 == sha256 ? &*state_.window : nullptr;
}

Status Resampler::TrySampling(const agree::Change& change) {
  const std::optional<budget::JobDecision> decision = budget::JobDecisionFrom(change.bytes);
  if (!decision) return Status(StatusCode::kInvalid, "the proposal of rank 0 is malformed");
  controller_->FeedBegun();
  const MachinePlan* const window = WindowFrom(change.sha256);
  if (window == nullptr) return Status();
  Edit edit = plans_.Source(window->plan_id);
  if (!edit.parsed.value().config.own.budget) return Status(StatusCode::kInvalid, "its config has no budget");
  edit.sampling = decision->decision.sampling;
  if (!pipeline_->Compile(&edit, state_.next_plan_id)) return edit.refusal;
  (void)plans_.MakeContinuation(edit.compiled.plan);  // checks that there is memory for it
  return Status();
}

// If each rank applies edits at a step of its own, the window may not have begun.
void Resampler::OnSamplingAgreed(const agree::Change& change, int64_t at_step) {
  pace_.BeginAnew();
  const std::optional<budget::JobDecision> decision = budget::JobDecisionFrom(change.bytes);
  controller_->FeedBegun();
  const MachinePlan* window = WindowFrom(change.sha256);
  if (window == nullptr && state_.armed && state_.armed->sha256 == change.sha256) window = &*state_.armed;
  if (!decision || window == nullptr) return;
  if (!agreed_ || agreed_->at_step != at_step)
    agreed_ = AgreedSampling{*decision, window->window, change.plan_id, at_step, 0, false};
  ArmAgreed();
}

void Resampler::OnSamplingRejected(const agree::Decision& decision) {
  if (decision.cause == agree::Cause::kSuperseded) return;
  pace_.Refused();
  if (decision.cause == agree::Cause::kRenumber) {
    if (!state_.armed) controller_->Feed(Renumbered{decision.next_plan_id});
  } else if (state_.window) {
    IgnoreExceptions(
        [&] { budget_.SetTrouble(agree::AbortText(decision), *plans_.Source(state_.window->plan_id).compiled.plan); });
  }
}

void Resampler::ArmAgreed() {
  if (!agreed_) return;
  controller_->FeedBegun();
  const bool waits = state_.armed && state_.armed->window == agreed_->window;
  const bool is_in_force = state_.window && !state_.stopping && state_.window->window == agreed_->window;
  if (!is_in_force) return waits ? void() : agreed_.reset();
  const Edit before = plans_.Source(state_.window->plan_id);
  const bool has_begun = before.sampling == agreed_->decision.decision.sampling;
  if (has_begun || !before.parsed.value().config.own.budget) return agreed_.reset();
  const PlanId id = IdForAgreed();
  if (state_.window->continuation != 0 || id == 0) return;
  Edit edit = before;
  edit.sampling = agreed_->decision.decision.sampling;
  if (!pipeline_->Compile(&edit, id)) {  // the model has changed since the vote
    const std::string why = edit.refusal.ToString();
    agreed_.reset();
    return reports_->Emit(EventKind::kDegraded,
                          "the sampling that the ranks have agreed on cannot be applied on this rank: " + why);
  }
  edit.compiled.warnings.clear();  // already reported
  const budget::SamplingGovernor::Decision& decision = agreed_->decision.decision;
  const std::string text = fmt::format("{}; the cost on rank {} is decisive, and all ranks follow from step {} on",
                                       budget::BudgetKeeper::TextOf(decision, *before.compiled.plan),
                                       agreed_->decision.rank, agreed_->at_step);
  if (!agreed_->is_followed) budget_.Follow(decision, *before.compiled.plan);
  agreed_->is_followed = true;
  controller_->PutContinuation(Resampled{id}, edit, agreed_->at_step);
  in_slot_ = id;
  const bool is_first = std::exchange(agreed_->armed, id) == 0;
  ReportAgreed(text, is_first);
}

// Plans begin in the order of their ids. 0: the armed plan has the next one, and is decided on first.
PlanId Resampler::IdForAgreed() const {
  const PlanId agreed = agreed_->plan_id;
  const bool is_free = mode_.reads_the_file ? agreed > state_.window->plan_id : agreed >= state_.next_plan_id;
  if (is_free && agreed_->armed == 0) return agreed;
  return state_.armed ? 0 : state_.next_plan_id;
}

void Resampler::ReportAgreed(const std::string& text, bool is_first) {
  const PlanId id = agreed_->armed;
  if (is_first) IgnoreExceptions([&] { reports_->Emit(EventKind::kNote, text, id); });
  IgnoreExceptions([&] { journal_->Update(id, [&](output::ManifestPlan& plan) { plan.budget->decision = text; }); });
  const int64_t late = data_plane_->running.number() + 1 - agreed_->at_step;
  if (late <= 0) return;
  IgnoreExceptions([&] {
    reports_->Emit(
        EventKind::kDegraded,
        fmt::format("the sampling for step {} begins on this rank {} {} late; it counts like those of the other ranks",
                    agreed_->at_step, late, late == 1 ? "step" : "steps"),
        id);
  });
}

}  // namespace stepwatch::reload
