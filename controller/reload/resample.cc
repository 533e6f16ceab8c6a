// The budget has the window in force go on with another sampling: a plan that is compiled again from the same bytes,
// and waits in the slot like any other. In a job of one process anything else that comes takes it out of there first.
// The ranks of a job agree on it, for a step; then it stays, and if a call of this rank's program comes in between, it
// is compiled again for that step.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "controller/reload/quietly.h"
#include "controller/reload/reloader.h"

namespace stepwatch::reload {
namespace {

// For the ranks to say what they want of the budget. Who is later is not heard.
constexpr std::chrono::milliseconds kAnswerTime{2000};

}  // namespace

void Reloader::KeepBudget() {
  for (const drain::StepsMeasured& measured : parts_.board->TakeMeasured()) {
    const Edit* edit = plans_.Find(measured.plan_id);
    if (edit == nullptr || edit->compiled.plan == nullptr) continue;  // its window is over
    const auto decision = budget_.Take(measured, *edit, MayResample(measured.plan_id));
    if (!agrees()) {
      if (decision) Resample(measured.plan_id, *decision);
    } else if (agreement_->reads_the_file()) {
      asking_pace_.Collected(measured.cost.collected, decision);
      AskForWishes(measured.plan_id);
    }
  }
  ArmAgreed();
}

// The plan is the one in force, and nothing is on its way to the step thread.
bool Reloader::MayResample(PlanId plan_id) const {
  return state_.window && state_.window->plan_id == plan_id && state_.window->continuation == 0 && !state_.armed &&
         !state_.stopping && state_.published.empty() && parts_.data_plane->plans.plan_id() == plan_id && !agreed_ &&
         !undecided();
}

void Reloader::Resample(PlanId plan_id, const SamplingGovernor::Decision& decision) {
  const Edit before = plans_.Source(plan_id);
  Edit edit = before;
  edit.sampling = decision.sampling;
  const PlanId id = state_.next_plan_id;
  if (!pipeline_.Compile(&edit, id)) return;
  edit.compiled.warnings.clear();          // they are told
  PutContinuation(Recompiled{}, edit, 0);  // no boundary is too early, so that the step thread never puts it back
  in_slot_.at_step = parts_.data_plane->running.number() + 1;
  budget_.Follow(decision, before);
  const std::string text = BudgetKeeper::TextOf(decision, before);
  Quietly([&] { journal_.Update(id, [&](output::ManifestPlan& plan) { plan.budget->decision = text; }); });
  Quietly([&] { Tell(EventKind::kNote, text, id); });
}

// What is no longer in the slot has begun, or its window has ended at the boundary at which it was to begin: the drain
// tells which.
void Reloader::WithdrawResampled() {
  if (resampled_ == 0) return;
  const PlanId id = std::exchange(resampled_, 0);
  if (parts_.data_plane->plans.slot().Publish(nullptr) != nullptr) Feed(Discarded{id});
}

// --- ranks of a job ---

void Reloader::AskForWishes(PlanId plan_id) {
  agree::Questions* const questions = agreement_->questions();
  if (questions == nullptr || !MayResample(plan_id)) return;
  if (!asking_pace_.IsDue(std::chrono::steady_clock::now())) return;
  asking_pace_.Asked();
  const Edit& running = plans_.Source(plan_id);
  try {
    questions->Ask(BudgetQuestionText(running.sha256, running.sampling), kAnswerTime,
                   [this, plan_id](const Result<std::vector<agree::RankAnswer>>& answers) {
                     asking_pace_.Answered(std::chrono::steady_clock::now());
                     if (answers.ok()) Quietly([&] { OnWishes(plan_id, answers.value()); });
                   });
  } catch (...) {
    asking_pace_.Answered(std::chrono::steady_clock::now());
    throw;
  }
}

void Reloader::OnWishes(PlanId plan_id, const std::vector<agree::RankAnswer>& answers) {
  if (is_stopped_ || !MayResample(plan_id)) return;
  const Edit running = plans_.Source(plan_id);
  std::vector<BudgetWish> wishes;
  for (const agree::RankAnswer& each : answers)
    wishes.push_back(each.trouble.empty() ? BudgetWishFrom(each.text_untrusted) : BudgetWish());
  const std::optional<JobDecision> decision = Combine(wishes, running.sampling);
  if (!decision) return;
  const bool votes = running.parsed.value().config.own.coordination == config::Coordination::kStrict;
  const std::string why_not = WhyNotDone(wishes, votes);
  if (!why_not.empty()) return budget_.SetTrouble(why_not, running);
  const PlanId id = state_.next_plan_id;
  Feed(Renumbered{id + 1});  // nothing is armed: the id is kept free for it
  agreement_->ProposeSampling(Encode(*decision), id, running);
}

BudgetWish Reloader::AnswerBudget(const BudgetQuestion& question) {
  LearnWhatBegan();
  const MachinePlan* const window = WindowFrom(question.sha256);
  if (window == nullptr)
    return {state_.armed && state_.armed->sha256 == question.sha256 ? BudgetWish::Kind::kStay : BudgetWish::Kind::kNone,
            {}};
  const Edit& running = plans_.Source(window->plan_id);
  if (running.sampling != question.in_force) return {BudgetWish::Kind::kStay, {}};
  return budget_.Wish(running);
}

const MachinePlan* Reloader::WindowFrom(const std::string& sha256) const {
  if (!state_.window || state_.stopping) return nullptr;
  return plans_.Source(state_.window->plan_id).sha256 == sha256 ? &*state_.window : nullptr;
}

Status Reloader::TrySampling(const agree::Change& change) {
  const std::optional<JobDecision> decision = JobDecisionFrom(change.bytes);
  if (!decision) return Status(StatusCode::kInvalid, "the proposal of rank 0 is malformed");
  LearnWhatBegan();
  const MachinePlan* const window = WindowFrom(change.sha256);
  if (window == nullptr) return Status();
  Edit edit = plans_.Source(window->plan_id);
  if (!edit.parsed.value().config.own.budget) return Status(StatusCode::kInvalid, "its config has no budget");
  edit.sampling = decision->decision.sampling;
  if (!pipeline_.Compile(&edit, state_.next_plan_id)) return edit.refusal;
  (void)plans_.MakeContinuation(edit.compiled.plan);  // there is memory for it
  return Status();
}

// Where edits are taken at a step of each rank's own, the window may not have begun.
void Reloader::TakeSampling(const agree::Change& change, int64_t at_step) {
  asking_pace_.BeginAnew();
  const std::optional<JobDecision> decision = JobDecisionFrom(change.bytes);
  LearnWhatBegan();
  const MachinePlan* window = WindowFrom(change.sha256);
  if (window == nullptr && state_.armed && state_.armed->sha256 == change.sha256) window = &*state_.armed;
  if (!decision || window == nullptr) return;
  if (!agreed_ || agreed_->at_step != at_step)
    agreed_ = AgreedSampling{*decision, window->window, change.plan_id, at_step, 0, false};
  ArmAgreed();
}

void Reloader::TakeSamplingRejection(const agree::Decision& decision) {
  if (decision.cause == agree::Cause::kSuperseded) return;
  asking_pace_.Refused();
  if (decision.cause == agree::Cause::kRenumber) {
    if (!state_.armed) Feed(Renumbered{decision.next_plan_id});
  } else if (state_.window) {
    Quietly([&] { budget_.SetTrouble(agree::AbortText(decision), plans_.Source(state_.window->plan_id)); });
  }
}

void Reloader::ArmAgreed() {
  if (!agreed_) return;
  LearnWhatBegan();
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
  if (!pipeline_.Compile(&edit, id)) {  // the model has changed since the vote
    const std::string why = edit.refusal.ToString();
    agreed_.reset();
    return Tell(EventKind::kDegraded,
                "the sampling that the ranks have agreed on cannot be applied on this rank: " + why);
  }
  edit.compiled.warnings.clear();  // they are told
  const SamplingGovernor::Decision& decision = agreed_->decision.decision;
  const std::string text =
      fmt::format("{}; the cost on rank {} is decisive, and all ranks follow from step {} on",
                  BudgetKeeper::TextOf(decision, before), agreed_->decision.rank, agreed_->at_step);
  if (!agreed_->is_followed) budget_.Follow(decision, before);
  agreed_->is_followed = true;
  PutContinuation(Resampled{id}, edit, agreed_->at_step);
  const bool is_first = std::exchange(agreed_->armed, id) == 0;
  TellAgreed(text, is_first);
}

// What can fail comes first: the state says that the plan waits in the slot if and only if it does.
void Reloader::PutContinuation(const Input& input, const Edit& edit, int64_t at_step) {
  const PlanId id = edit.compiled.plan->layout.plan_id;
  plans_.SetSource(id, edit);
  PrepareOutput(*edit.compiled.plan);
  Feed(input);
  continuation_->at_step = at_step;
  PutInSlot(std::move(continuation_));
  resampled_ = id;
}

// Plans begin in the order of their ids. 0: what is armed has the next one, and is decided on first.
PlanId Reloader::IdForAgreed() const {
  const PlanId agreed = agreed_->plan_id;
  const bool is_free = agreement_->reads_the_file() ? agreed > state_.window->plan_id : agreed >= state_.next_plan_id;
  if (is_free && agreed_->armed == 0) return agreed;
  return state_.armed ? 0 : state_.next_plan_id;
}

void Reloader::TellAgreed(const std::string& text, bool is_first) {
  const PlanId id = agreed_->armed;
  if (is_first) Quietly([&] { Tell(EventKind::kNote, text, id); });
  Quietly([&] { journal_.Update(id, [&](output::ManifestPlan& plan) { plan.budget->decision = text; }); });
  const int64_t late = parts_.data_plane->running.number() + 1 - agreed_->at_step;
  if (late <= 0) return;
  Quietly([&] {
    Tell(EventKind::kDegraded,
         fmt::format("the sampling for step {} begins on this rank {} {} late; it counts like those of the other ranks",
                     agreed_->at_step, late, late == 1 ? "step" : "steps"),
         id);
  });
}

}  // namespace stepwatch::reload
