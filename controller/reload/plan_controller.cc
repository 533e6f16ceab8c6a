#include "controller/reload/plan_controller.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "src/base/ignore_exceptions.h"
#include "src/plan/plan.h"

namespace stepwatch::reload {
namespace {

using base::IgnoreExceptions;

template <class Performed, class... Kinds>
constexpr bool kIsOneOf = (std::is_same_v<Performed, Kinds> || ...);
template <class Performed>
constexpr bool kIsReport =
    !kIsOneOf<Performed, PublishPlan, RepublishPlan, ContinueWindow, PublishStop, SetPause, WriteBack, LookAgain>;

}  // namespace

PlanController::PlanController(const Options& options, RunMode mode, step::DataPlane* data_plane, drain::Drain* drain,
                               EditReporter* reports, RowOutput* output, Callbacks callbacks)
    : mode_(mode),
      data_plane_(data_plane),
      reports_(reports),
      output_(output),
      callbacks_(std::move(callbacks)),
      plans_(options, mode.dynamic, data_plane, drain,
             [reports](PlanId id) { reports->EmitSuperseded(id, "a newer one replaced it before it was applied"); }) {
  state_.dynamic = mode.dynamic;
}

void PlanController::Feed(const Input& input) {
  Transition transition = Step(state_, input);
  MachineState before = std::exchange(state_, std::move(transition.state));
  try {
    for (const Action& action : transition.actions)
      std::visit(
          [this](const auto& each) {
            if constexpr (kIsReport<std::decay_t<decltype(each)>>)
              IgnoreExceptions([&] { Report(each); });
            else if constexpr (std::is_same_v<decltype(each), const WriteBack&>)
              callbacks_.write_back(each);
            else if constexpr (std::is_same_v<decltype(each), const LookAgain&>)
              callbacks_.look_again();
            else
              Perform(each);
          },
          action);
  } catch (...) {
    state_ = std::move(before);
    plans_.DiscardOldSources(state_);
    throw;
  }
  plans_.DiscardOldSources(state_);
  callbacks_.on_fed();
}

void PlanController::FeedBegun() {
  const PlanId newest = data_plane_->plans.newest_begun();
  const bool continues = state_.window && state_.window->continuation == newest;
  const bool is_news = continues || std::any_of(state_.published.begin(), state_.published.end(),
                                                [&](const MachinePlan& plan) { return plan.plan_id == newest; });
  if (newest != 0 && is_news) Feed(Applied{newest});
}

bool PlanController::ArmedWaits() const {
  return state_.armed && plans_.Source(state_.armed->plan_id).at_step > data_plane_->running.number() + 1;
}

int64_t PlanController::StepOf(PlanId plan_id) const {
  const Edit* source = plans_.Find(plan_id);
  if (source == nullptr) return -1;
  if (in_slot_.plan_id == plan_id) return in_slot_.at_step;
  const bool is_deferred =
      agreement_ != nullptr && agreement_->defers() && state_.armed && state_.armed->plan_id == plan_id;
  return is_deferred ? source->at_step : -1;
}

void PlanController::PutInSlot(std::unique_ptr<step::PendingPlan>&& plan) {
  callbacks_.on_placing(*plan);
  if (plan->pipeline) {
    output_->Prepare(plan->plan());
    in_slot_ = {plan->plan().layout.plan_id, plan->at_step};
  }
  plans_.PutInSlot(std::move(plan));
}

// Calls that can throw come first: the state shows a waiting plan if and only if there is one in the slot.
void PlanController::PutContinuation(const Input& input, const Edit& edit, int64_t at_step) {
  plans_.SetSource(edit.compiled.plan->layout.plan_id, edit);
  output_->Prepare(*edit.compiled.plan);
  Feed(input);
  continuation_->at_step = at_step;
  PutInSlot(std::move(continuation_));
  if (at_step == 0) in_slot_.at_step = data_plane_->running.number() + 1;
}

template <class ReportAction>
void PlanController::Report(const ReportAction& action) {
  if constexpr (std::is_same_v<ReportAction, ReportNotBegun>) {
    callbacks_.on_not_begun();
  } else {
    if constexpr (std::is_same_v<ReportAction, ReportSeen>) callbacks_.on_seen();
    reports_->Report(action);
  }
}

void PlanController::Perform(const PublishPlan& action) {
  std::unique_ptr<step::PendingPlan> plan = PendingOf(action.plan_id);
  callbacks_.on_new_window(plan->plan());
  const Edit& source = plans_.Source(action.plan_id);
  if (mode_.agrees()) return agreement_->Submit(std::move(plan), source);
  // In dynamic mode an edit accepted during step n holds from n + 1, or from the later step that it names. In static
  // mode it holds from the step about to begin.
  const int64_t next = data_plane_->running.number() + (mode_.dynamic ? 1 : 0);
  const int64_t at_step = std::max(next, source.at_step);
  plan->at_step = at_step;
  const std::shared_ptr<const plan::Plan> armed = plan->pipeline->plan;
  PutInSlot(std::move(plan));
  reports_->ReportArmed(*armed, plans_.Find(armed->layout.plan_id),
                        at_step > next ? ", from step " + std::to_string(at_step) : "");
}

void PlanController::Perform(const RepublishPlan& action) {
  if (!mode_.agrees()) return Perform(PublishPlan{action.plan_id});
  std::unique_ptr<step::PendingPlan> plan = PendingOf(action.plan_id);
  agreement_->SubmitAgain(std::move(plan), plans_.Source(action.plan_id));
}

// The step thread waits for this plan, and receives it with the answer.
void PlanController::Perform(const ContinueWindow& action) {
  const Edit& source = plans_.Source(action.plan_id);
  IgnoreExceptions([&] { reports_->Warn(source.compiled.warnings); });
  continuation_ = plans_.MakeContinuation(source.compiled.plan);
  reports_->ReportArmed(*source.compiled.plan, &source, ", the window goes on");
}

// A limit concerns this rank alone: the stop needs no agreement, and the other ranks continue.
void PlanController::Perform(const PublishStop& action) {
  auto stop = std::make_unique<step::PendingPlan>(step::Stop{action.reason});
  stop->at_step = data_plane_->running.number() + 1;
  if (mode_.agrees() && action.reason != step::EndReason::kLimited)
    return agreement_->Submit(std::move(stop), current_);
  if (agreement_ != nullptr) agreement_->WithdrawDeferred();
  PutInSlot(std::move(stop));
}

void PlanController::Perform(const SetPause& action) {
  data_plane_->plans.RequestPause(action.window, action.pause);
}

std::unique_ptr<step::PendingPlan> PlanController::PendingOf(PlanId plan_id) {
  const Edit& source = plans_.AddSource(plan_id, current_);
  IgnoreExceptions([&] { reports_->Warn(source.compiled.warnings); });
  auto built = agreement_ != nullptr ? agreement_->TakeBuilt(source.compiled.plan) : nullptr;
  return built ? std::move(built) : plans_.MakeWindow(source.compiled.plan);
}

}  // namespace stepwatch::reload
