// Switches the step thread from plan to plan: which plan is in force, which steps it collects, when it ends.
//
// Nothing here locks, allocates or does I/O, and nothing waits but EndStep, before a step that ranks are about to agree
// on (StepGate). The semaphore that wakes the drain is posted once for each collected step.
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

// What the hooks of a model that was indexed anew in mid-step do for the rest of it.
struct MovedHooks {
  RecordLayout layout;  // that of the plan in force, on the sites of now
  FrontEndRequests requests;
};

class PlanSwitch {
 public:
  // All outlive the switch.
  PlanSwitch(RunningStep* running, StepGate* gate, GraphCapture* graph_capture, device::GraphClock* graph_clock,
             WakeUp* drain_wake_up, PulseWriter* pulse);
  ~PlanSwitch();

  // --- step thread, with no recorder running ---
  void SetHooks(HookTable* hooks) { hooks_ = hooks; }
  // Applies what waits for the step about to begin, without ending one. If something was observed in that step already,
  // what waits does so until the boundary: no frame is cut in two.
  void ApplyBetweenSteps() noexcept;
  // Continues the window in force with this plan: from the step about to begin, or if something was observed in it,
  // from the next. Replaces a plan that still waits for that. Without a window the plan is for nothing.
  void ContinueWith(std::unique_ptr<PendingPlan> plan) noexcept;
  // The hooks are new, and the plan in force stays for the running step.
  void MoveHooks(std::unique_ptr<const MovedHooks> moved) noexcept;
  void EndStep() noexcept;
  // Ends the window, if any; no plan is ever applied again.
  void Close() noexcept;

  // --- any thread ---
  PlanId plan_id() const { return plan_id_.load(std::memory_order_relaxed); }
  // The newest plan that ever was in force.
  PlanId newest_begun() const { return newest_begun_.load(std::memory_order_acquire); }
  int64_t collected() const { return collected_.load(std::memory_order_relaxed); }
  bool plan_waiting() const { return slot_.waiting(); }
  // What taking plans over, and stops, has taken of the step thread.
  SwapTimes swap_times() const { return swap_meter_.Read(); }
  // The window in force collects nothing until it is resumed.
  bool paused() const { return paused_.load(std::memory_order_acquire); }
  // The first step for which that holds, or for which it holds again that it collects; -1: nothing was paused yet.
  int64_t pause_changed_at() const { return pause_changed_at_.load(std::memory_order_relaxed); }

  // --- loop thread ---
  PlanSlot& slot() { return slot_; }
  // From the next boundary on the window that this plan has begun collects nothing, or collects again. Replaces an
  // earlier wish. If another window is in force by then, nothing happens.
  void AskForPause(PlanId window, bool pause) noexcept { AskForPause(window, pause, 0); }
  // Likewise, from this step on, for whichever window is in force then: the ranks of the job have agreed on it. Not
  // later than the running step means the next boundary; the window then ends with those of the ranks that were in
  // time.
  void AskForPauseAt(int64_t step, bool pause) noexcept { AskForPause(kAnyWindow, pause, step); }
  // At the next boundary the plan in force is told to begin this segment, at the latest before its end; without one the
  // next plan is. Not before the cut that was asked for earlier has come out of the ring, or was withdrawn.
  void AskForCut(int64_t segment) noexcept { cut_asked_.store(segment, std::memory_order_relaxed); }
  // False: the cut is in a ring, or was.
  bool WithdrawCut() noexcept { return cut_asked_.exchange(0, std::memory_order_relaxed) != 0; }
  // Frees plans that no thread can still be using.
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
  void AskForPause(PlanId window, bool pause, int64_t at_step) noexcept {
    pause_at_.store(at_step, std::memory_order_relaxed);
    pause_asked_.store(static_cast<int64_t>(window) * 2 + (pause ? 1 : 0), std::memory_order_release);
  }
  void TakeWishes(int64_t next_step) noexcept;
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
  std::unique_ptr<PendingPlan> current_;           // the window: its plan and pipeline
  std::unique_ptr<PendingPlan> continuation_;      // waits for the boundary
  plan::StepRule rule_;
  CostMeter meter_;
  uint64_t produced_before_frame_ = 0;
  int64_t collected_before_plan_ = 0;  // of the window
  PlanId window_ = 0;                  // the plan that began it
  bool pause_told_ = false;            // the drain knows that the window is paused
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
  std::atomic<int64_t> pause_asked_{0};  // twice the window, and 1 for a pause; 0: nothing is asked
  std::atomic<int64_t> pause_at_{0};     // the step of that; written before it
  std::atomic<int64_t> cut_asked_{0};    // the segment; 0: nothing is asked
};

}  // namespace stepwatch::step
