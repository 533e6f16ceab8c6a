// Switches the step thread between plans: which plan is in force, which steps it collects, when it ends.
//
// No call locks, allocates or does I/O, and only EndStep waits, before a step that ranks are about to agree on
// (StepGate). The semaphore that wakes the drain is posted once for each collected step.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "src/device/graph_clock.h"
#include "src/step/graph_capture.h"
#include "src/step/pending_plan.h"
#include "src/step/plan_slot.h"
#include "src/step/pulse_writer.h"
#include "src/step/running_step.h"
#include "src/step/step_cost.h"
#include "src/step/step_gate.h"
#include "src/step/swap_meter.h"
#include "src/step/wake_up.h"
#include "stepwatch/hook_table.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::step {

// Hooks of a model that was indexed again in mid-step, for the rest of that step.
struct MovedHooks {
  RecordLayout layout;  // layout of the plan in force, on the current sites
  FrontEndRequests requests;
};

class PlanSwitch {
 public:
  // All must outlive the switch.
  PlanSwitch(RunningStep* running, StepGate* gate, GraphCapture* graph_capture, device::GraphClock* graph_clock,
             WakeUp* drain_wake_up, PulseWriter* pulse);
  ~PlanSwitch();

  // --- step thread, with no recorder running ---
  void SetHooks(HookTable* hooks) { hooks_ = hooks; }
  // Applies waiting plans and requests to the step about to begin, without ending a step. If an observation was already
  // made in that step, they wait for the boundary: a frame is never split.
  void ApplyBetweenSteps() noexcept;
  // Continues the window in force with this plan: from the step about to begin, or, if an observation was made in it,
  // from the next. Replaces a plan that still waits for that. Without a window the plan is discarded.
  void ContinueWith(std::unique_ptr<PendingPlan> plan) noexcept;
  // The hooks have changed; the plan in force stays for the running step.
  void MoveHooks(std::unique_ptr<const MovedHooks> moved) noexcept;
  void EndStep() noexcept;
  // Ends the window, if any; no plan is applied after this.
  void Close() noexcept;

  // --- any thread ---
  PlanId plan_id() const { return plan_id_.load(std::memory_order_relaxed); }
  // The newest plan that was ever in force.
  PlanId newest_begun() const { return newest_begun_.load(std::memory_order_acquire); }
  int64_t collected() const { return collected_.load(std::memory_order_relaxed); }
  bool plan_waiting() const { return slot_.waiting(); }
  // Time that the step thread spent on applying plans and stops.
  SwapTimes swap_times() const { return swap_meter_.Read(); }
  // True while the window in force is paused and collects nothing.
  bool paused() const { return paused_.load(std::memory_order_acquire); }
  // The step of the last pause or resumption; -1: never paused.
  int64_t pause_changed_at() const { return pause_changed_at_.load(std::memory_order_relaxed); }

  // --- loop thread ---
  PlanSlot& slot() { return slot_; }
  // Pauses or resumes, from the next boundary on, the window that this plan began. Replaces an earlier request. Has no
  // effect if another window is in force by then.
  void RequestPause(PlanId window, bool pause) noexcept { RequestPause(window, pause, 0); }
  // The same from an agreed step of the job's ranks on, for whichever window is in force then. If the step is not later
  // than the running one, the next boundary counts; the window then ends with those of the ranks that were in time.
  void RequestPauseAt(int64_t step, bool pause) noexcept { RequestPause(kAnyWindow, pause, step); }
  // Makes the plan in force begin this segment at the next boundary, at the latest before its end; without a plan, the
  // next one does. Must not be called before the previous cut has come out of the ring, or was withdrawn.
  void RequestCut(int64_t segment) noexcept { requested_cut_.store(segment, std::memory_order_relaxed); }
  // Returns false if the cut is, or was, already in a ring.
  bool WithdrawCut() noexcept { return requested_cut_.exchange(0, std::memory_order_relaxed) != 0; }
  // Frees plans that no thread can use any more.
  void Reclaim() noexcept;

  // --- drain thread ---
  BegunPlans& begun_plans() { return begun_plans_; }

 private:
  void CloseFrame(CostMeter::Clock::time_point ended) noexcept;
  void TakePlans(int64_t next_step) noexcept;
  void Swap(std::unique_ptr<PendingPlan> plan, int64_t next_step) noexcept;
  void Apply(std::unique_ptr<PendingPlan> plan, int64_t next_step) noexcept;
  void SetRule(plan::StepRule rule, const NewWindow& window, int64_t at_step, int64_t first_step) noexcept;
  void Begin(std::unique_ptr<PendingPlan> plan, int64_t first_step) noexcept;
  void EndWindow(EndReason reason, int64_t last_step) noexcept;
  void RequestPause(PlanId window, bool pause, int64_t at_step) noexcept {
    requested_pause_at_.store(at_step, std::memory_order_relaxed);
    requested_pause_.store(static_cast<int64_t>(window) * 2 + (pause ? 1 : 0), std::memory_order_release);
  }
  void TakeRequests(int64_t next_step) noexcept;
  void TakePause(int64_t next_step) noexcept;
  void CountLatePause(bool paused, int64_t at_step, int64_t next_step) noexcept;
  void SetPaused(bool paused, int64_t next_step) noexcept;
  void Cut(int64_t last_step) noexcept;
  void SetCollecting() noexcept;
  void Retire(std::unique_ptr<PendingPlan> plan) noexcept;
  void PutBack(PendingPlan* plan) noexcept;

  static constexpr PlanId kAnyWindow = std::numeric_limits<PlanId>::max();

  RunningStep* const running_;
  StepGate* const gate_;
  GraphCapture* const graph_capture_;
  device::GraphClock* const graph_clock_;
  WakeUp* const drain_wake_up_;
  PulseWriter* const pulse_;

  // Step thread only.
  HookTable* hooks_ = nullptr;
  std::unique_ptr<const MovedHooks> moved_hooks_;  // kept alive: the hooks may still point to it
  std::unique_ptr<PendingPlan> current_;           // the window in force: its plan and pipeline
  std::unique_ptr<PendingPlan> continuation_;      // waits for the boundary
  plan::StepRule rule_;
  CostMeter meter_;
  uint64_t produced_before_frame_ = 0;
  int64_t collected_before_plan_ = 0;  // of the window
  PlanId window_ = 0;                  // the plan that began the window
  bool pause_reported_ = false;        // the pause state last reported to the drain
  bool closed_ = false;

  PlanSlot slot_;
  BegunPlans begun_plans_;
  SwapMeter swap_meter_;
  std::atomic<PlanId> plan_id_{0};
  std::atomic<PlanId> newest_begun_{0};
  std::atomic<int64_t> collected_{0};
  std::atomic<uint64_t> boundaries_{0};
  std::atomic<PendingPlan*> retired_{nullptr};
  std::atomic<bool> paused_{false};
  std::atomic<int64_t> pause_changed_at_{-1};
  std::atomic<int64_t> requested_pause_{0};     // twice the window, plus 1 for a pause; 0: no request
  std::atomic<int64_t> requested_pause_at_{0};  // step of the request; written before it
  std::atomic<int64_t> requested_cut_{0};       // the segment; 0: no request
};

}  // namespace stepwatch::step
