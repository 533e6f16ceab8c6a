#include "src/step/plan_switch.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace stepwatch::step {
namespace {

const FrontEndRequests kNoRequests;

// The extra steps that ranks which changed from one rule to the other at `at_step` have collected before `next_step`,
// compared to this rank; 0 without an agreed step.
int64_t TurnsMissed(const plan::StepRule& before, const plan::StepRule& after, int64_t at_step, int64_t next_step) {
  if (at_step <= 0 || at_step >= next_step) return 0;
  const auto turns = [&](const plan::StepRule& rule) {
    return rule.TurnsBefore(next_step) - rule.TurnsBefore(at_step);
  };
  return turns(after) - turns(before);
}

}  // namespace

PlanSwitch::PlanSwitch(RunningStep* running, StepGate* gate, GraphCapture* graph_capture,
                       device::GraphClock* graph_clock, WakeUp* drain_wake_up, PulseWriter* pulse)
    : running_(running),
      gate_(gate),
      graph_capture_(graph_capture),
      graph_clock_(graph_clock),
      drain_wake_up_(drain_wake_up),
      pulse_(pulse) {}

PlanSwitch::~PlanSwitch() {
  boundaries_.fetch_add(2, std::memory_order_relaxed);
  Reclaim();
}

void PlanSwitch::CloseFrame(CostMeter::Clock::time_point ended) noexcept {
  Pipeline& pipeline = *current_->pipeline;  // valid until the next boundary, even if the window ends here
  const uint64_t produced = pipeline.produced.load(std::memory_order_relaxed);
  // Fails only when the drain is stuck; the drain then closes the frame at the next record that gets through.
  const StepCost cost = meter_.EndFrame(pipeline.cost);
  if (pipeline.ring.TryPush(FrameEnd{running_->number(), produced - produced_before_frame_, cost})) meter_.Hand(cost);
  produced_before_frame_ = produced;
  const int64_t collected = collected_.load(std::memory_order_relaxed) + 1;
  collected_.store(collected, std::memory_order_relaxed);
  if (collected >= rule_.times) EndWindow(EndReason::kTimes, running_->number());
  drain_wake_up_->Post();
  pipeline.cost.Add(kBoundaryCost, CostMeter::Clock::now() - ended);
}

void PlanSwitch::EndStep() noexcept {
  if (!running_->InOwner() || closed_) return;
  const auto ended = current_ == nullptr ? CostMeter::Clock::now() : meter_.EndStep();
  pulse_->EndStep(running_->number(), ended);
  graph_capture_->EndStep();
  if (running_->collecting().load(std::memory_order_relaxed)) CloseFrame(ended);
  const int64_t next = running_->number() + 1;
  boundaries_.fetch_add(1, std::memory_order_release);
  gate_->Arrive(next);
  TakePlans(next);
  running_->SetNumber(next);
  SetCollecting();
}

void PlanSwitch::ApplyBetweenSteps() noexcept {
  if (!running_->InOwner() || closed_ || running_->observed()) return;
  TakePlans(running_->number());
  SetCollecting();
}

void PlanSwitch::ContinueWith(std::unique_ptr<PendingPlan> plan) noexcept {
  if (!running_->InOwner() || closed_) return;
  if (continuation_ != nullptr) Retire(std::move(continuation_));
  continuation_ = std::move(plan);
  ApplyBetweenSteps();
}

void PlanSwitch::MoveHooks(std::unique_ptr<const MovedHooks> moved) noexcept {
  const bool is_in_force = current_ != nullptr && current_->plan().layout.plan_id == moved->layout.plan_id;
  if (!running_->InOwner() || !is_in_force || !running_->observed() || hooks_ == nullptr) return;
  hooks_->Swap(&moved->layout, moved->requests);
  moved_hooks_ = std::move(moved);
}

void PlanSwitch::Close() noexcept {
  if (!running_->InOwner() || closed_) return;
  if (current_ != nullptr)
    EndWindow(EndReason::kClosed, running_->observed() ? running_->number() : running_->number() - 1);
  closed_ = true;
  running_->StopCollecting();
  graph_clock_->Switch(false);
  boundaries_.fetch_add(2, std::memory_order_release);
  drain_wake_up_->Post();
}

// The continuation comes first, so that an edit or a stop then applies to the continued window.
void PlanSwitch::TakePlans(int64_t next_step) noexcept {
  if (continuation_ != nullptr) Swap(std::move(continuation_), next_step);
  if (slot_.waiting()) Swap(slot_.AtStep(next_step), next_step);
  TakeRequests(next_step);
}

void PlanSwitch::Swap(std::unique_ptr<PendingPlan> plan, int64_t next_step) noexcept {
  if (plan == nullptr) return;
  const auto began = std::chrono::steady_clock::now();
  Apply(std::move(plan), next_step);
  swap_meter_.Add(std::chrono::steady_clock::now() - began);
}

// Runs after the plans: a request for a window that has just ended is void.
void PlanSwitch::TakeRequests(int64_t next_step) noexcept {
  TakePause(next_step);
  if (current_ == nullptr) return;
  if (paused() != pause_reported_ && current_->pipeline->ring.TryPush(PauseMark{next_step, paused()})) {
    pause_reported_ = paused();
    drain_wake_up_->Post();
  }
  Cut(next_step - 1);
}

// A request that is replaced during this call is left to the next boundary, with its own step.
void PlanSwitch::TakePause(int64_t next_step) noexcept {
  int64_t request = requested_pause_.load(std::memory_order_acquire);
  if (request == 0) return;
  const int64_t at_step = requested_pause_at_.load(std::memory_order_relaxed);
  if (at_step > next_step || !requested_pause_.compare_exchange_strong(request, 0, std::memory_order_relaxed)) return;
  const bool pause = request % 2 == 1, is_agreed = request / 2 == static_cast<int64_t>(kAnyWindow);
  if (current_ == nullptr || pause == paused() || !(is_agreed || request / 2 == static_cast<int64_t>(window_))) return;
  if (is_agreed) CountLatePause(pause, at_step, next_step);
  SetPaused(pause, next_step);
}

// The other ranks paused or resumed some steps ago: counts as if this one had as well.
void PlanSwitch::CountLatePause(bool paused, int64_t at_step, int64_t next_step) noexcept {
  const int64_t turns = rule_.TurnsBefore(next_step) - rule_.TurnsBefore(at_step);
  if (at_step >= next_step || turns == 0) return;
  const int64_t collected = collected_.load(std::memory_order_relaxed) + (paused ? -turns : turns);
  collected_.store(std::clamp<int64_t>(collected, 0, rule_.times), std::memory_order_relaxed);
}

// A pause may be long, so the hooks come off: its steps cost as little as steps without a plan.
void PlanSwitch::SetPaused(bool paused, int64_t next_step) noexcept {
  pause_changed_at_.store(next_step, std::memory_order_relaxed);
  paused_.store(paused, std::memory_order_release);
  if (hooks_ == nullptr) return;
  if (paused)
    hooks_->Swap(nullptr, kNoRequests);
  else
    hooks_->Swap(&current_->plan().layout, current_->pipeline->requests_after_pause);
}

void PlanSwitch::Cut(int64_t last_step) noexcept {
  if (requested_cut_.load(std::memory_order_relaxed) == 0) return;
  const int64_t segment = requested_cut_.exchange(0, std::memory_order_relaxed);
  if (segment == 0) return;
  current_->pipeline->ring.Push(SegmentCut{last_step, segment});
  drain_wake_up_->Post();
}

void PlanSwitch::Apply(std::unique_ptr<PendingPlan> plan, int64_t next_step) noexcept {
  const auto* window = std::get_if<NewWindow>(&plan->effect);
  const bool continues = std::holds_alternative<Continue>(plan->effect);
  if (window == nullptr && (!continues || current_ == nullptr)) {
    const auto* stop = std::get_if<Stop>(&plan->effect);
    if (stop != nullptr && current_ != nullptr) EndWindow(stop->reason, next_step - 1);
    return Retire(std::move(plan));
  }
  if (current_ != nullptr) EndWindow(EndReason::kReplaced, next_step - 1);
  if (window != nullptr) {
    SetRule(plan->plan().rule, *window, plan->at_step, next_step);
    window_ = plan->plan().layout.plan_id;
    paused_.store(pause_reported_ = false, std::memory_order_relaxed);
  } else {
    const plan::StepRule before = rule_;
    rule_.interval = plan->plan().rule.interval;
    const int64_t late = paused() ? 0 : TurnsMissed(before, rule_, plan->at_step, next_step);
    const int64_t counted = collected_.load(std::memory_order_relaxed) + late;
    collected_.store(std::clamp<int64_t>(counted, 0, rule_.times), std::memory_order_relaxed);
  }
  Begin(std::move(plan), next_step);
}

void PlanSwitch::SetRule(plan::StepRule rule, const NewWindow& window, int64_t at_step, int64_t first_step) noexcept {
  rule_ = rule;
  if (window.start == StartRule::kWhenApplied) rule_.start = first_step;
  if (window.start == StartRule::kAtStep) rule_.start = at_step;
  collected_.store(window.start == StartRule::kAtStep ? rule_.CollectedBefore(first_step) : 0,
                   std::memory_order_relaxed);
}

void PlanSwitch::Begin(std::unique_ptr<PendingPlan> plan, int64_t first_step) noexcept {
  const bool continues = std::holds_alternative<Continue>(plan->effect);
  collected_before_plan_ = continues ? collected() : 0;
  meter_.BeginPlan(continues);
  produced_before_frame_ = 0;
  current_ = std::move(plan);
  const plan::Plan& begun = current_->plan();
  plan_id_.store(begun.layout.plan_id, std::memory_order_relaxed);
  newest_begun_.store(begun.layout.plan_id, std::memory_order_release);
  current_->pipeline->ring.Push(PlanBegin{first_step});
  begun_plans_.Push(std::move(current_->for_drain));
  running_->SetPipeline(current_->pipeline.get());
  if (hooks_ != nullptr && !paused()) hooks_->Swap(&begun.layout, begun.requests);
  // A plan that may not collect any step ends where it began.
  if (rule_.times <= collected()) EndWindow(EndReason::kTimes, first_step - 1);
  drain_wake_up_->Post();
}

void PlanSwitch::EndWindow(EndReason reason, int64_t last_step) noexcept {
  running_->StopCollecting();
  running_->SetPipeline(nullptr);
  Cut(last_step);
  if (reason != EndReason::kReplaced) paused_.store(false, std::memory_order_relaxed);
  current_->pipeline->ring.Push(PlanEnd{reason, last_step, collected() - collected_before_plan_});
  plan_id_.store(0, std::memory_order_relaxed);
  if (hooks_ != nullptr && reason != EndReason::kReplaced) hooks_->Swap(nullptr, kNoRequests);
  Retire(std::move(current_));
  drain_wake_up_->Post();
}

void PlanSwitch::SetCollecting() noexcept {
  const bool collects = current_ != nullptr && !paused() &&
                        rule_.Collects(running_->number(), collected_.load(std::memory_order_relaxed));
  running_->SetCollecting(collects,
                          collects ? current_->plan().DueGroups(rule_.Round(running_->number())) : kAllGroups);
  pulse_->SetCollecting(collects);
  graph_clock_->Switch(collects);
}

void PlanSwitch::Retire(std::unique_ptr<PendingPlan> plan) noexcept {
  plan->retired_at_boundary = boundaries_.load(std::memory_order_relaxed);
  PutBack(plan.release());
}

void PlanSwitch::PutBack(PendingPlan* plan) noexcept {
  plan->next = retired_.load(std::memory_order_relaxed);
  while (!retired_.compare_exchange_weak(plan->next, plan, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void PlanSwitch::Reclaim() noexcept {
  PendingPlan* plan = retired_.exchange(nullptr, std::memory_order_acquire);
  const uint64_t now = boundaries_.load(std::memory_order_acquire);
  while (plan != nullptr) {
    PendingPlan* const retired = std::exchange(plan, plan->next);
    if (now > retired->retired_at_boundary + 1)
      delete retired;
    else
      PutBack(retired);
  }
}

}  // namespace stepwatch::step
