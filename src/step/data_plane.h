// The step thread's side of the monitor: which plan is in force, which steps it collects, records into its ring.
//
// Observe*, Measure, Enqueue and Discard may also be called by autograd threads inside a step; EndStep only by the step
// thread, with no other call running. Nothing here locks or allocates but ObserveHeatmaps, once a step, nothing does
// I/O, and nothing waits but EndStep, before a step that ranks are about to agree on (StepGate); the semaphore that
// wakes the drain is posted once for each collected step, and whenever many results of a device are under way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "src/base/fork_guard.h"
#include "src/stats/engine.h"
#include "src/step/pending_plan.h"
#include "src/step/plan_slot.h"
#include "src/step/step_gate.h"
#include "src/step/wake_up.h"
#include "stepwatch/front_end_requests.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"

namespace stepwatch::step {

// What the hooks of a model that was indexed anew in mid-step do for the rest of it.
struct MovedHooks {
  RecordLayout layout;  // that of the plan in force, on the sites of now
  FrontEndRequests orders;
};

class DataPlane {
 public:
  // Both outlive the data plane.
  DataPlane(int64_t first_step, stats::Engine* engine, WakeUp* drain_wake_up,
            std::chrono::milliseconds decision_wait = std::chrono::milliseconds(200));
  ~DataPlane();

  // --- step thread ---
  void SetHooks(HookTable* hooks) { hooks_ = hooks; }
  void SetReplayStream(Device device, void* stream) noexcept { engine_->graphs().SetStream(device, stream); }
  // Applies what waits for the step about to begin, without ending one. If something was observed in that step already,
  // what waits does so until the boundary: no frame is cut in two.
  void ApplyBetweenSteps() noexcept;
  // A plan to continue the window in force with: from the step about to begin, or if something was observed in it, from
  // the next. Replaces one that still waits for that. Without a window it is for nothing.
  void ContinueWith(std::unique_ptr<PendingPlan> plan) noexcept;
  // The hooks are new, and the plan in force stays for the running step.
  void MoveHooks(std::unique_ptr<const MovedHooks> moved) noexcept;
  void EndStep() noexcept;
  // Ends the window, if any; no plan is ever applied again.
  void Close() noexcept;

  bool Measure(const Observation& at, const TensorView& tensor, Record* record) noexcept;
  void Enqueue(const Record& record) noexcept;
  void Discard(const Record& record) noexcept { engine_->Disown(record); }
  void ObserveBatch(const Observation* at, const TensorView* tensors, size_t count) noexcept;
  // See Monitor::Capture.
  void Capture(const PlannedSite& site, const Observation& at, const TensorView& tensor) noexcept;
  void ObserveMissing(const Observation& at) noexcept;
  // See Monitor::ObserveValues.
  void ObserveValues(const Observation& at, const double* values, size_t count) noexcept;
  void ObserveAgreement(const Observation& at, const TensorView& gradient, const TensorView& momentum) noexcept;
  // See Monitor::ObserveHeatmaps.
  void ObserveHeatmaps(std::vector<HeatmapColumn> columns) noexcept;

  // --- any thread ---
  const std::atomic<bool>* collecting_flag() { return &guard_.flag(); }
  bool InOwner() const noexcept { return guard_.InOwner(); }
  // Whoever reads a step here sees the plan slot as it was after the look at it for this step.
  int64_t step() const { return step_.load(std::memory_order_acquire); }
  PlanId plan_id() const { return plan_id_.load(std::memory_order_relaxed); }
  // The newest plan that ever was in force.
  PlanId newest_begun() const { return newest_begun_.load(std::memory_order_acquire); }
  int64_t collected() const { return collected_.load(std::memory_order_relaxed); }
  bool plan_waiting() const { return slot_.waiting(); }
  // Something was observed in the running step. Exact while the step thread waits for the caller.
  bool in_step() const { return observed_step_.load(std::memory_order_relaxed) == step(); }
  const StepGate& gate() const { return gate_; }

  // --- loop thread ---
  PlanSlot& slot() { return slot_; }
  StepGate& gate() { return gate_; }
  // Frees plans that no thread can still be using.
  void Reclaim() noexcept;

  // --- drain thread ---
  BegunPlans& begun_plans() { return begun_plans_; }

 private:
  Pipeline* Collecting() noexcept;
  void NoteObserved() noexcept;
  void FillKey(const Pipeline& pipeline, const Observation& at, Record* record) noexcept;
  void Push(Pipeline* pipeline, const Record& record) noexcept;
  void CountUnmeasured(Pipeline* pipeline, StatusCode code) noexcept;
  void ObserveWithRoom(Pipeline* pipeline, const Observation* at, const TensorView* tensors, size_t count) noexcept;
  void ObserveOne(Pipeline* pipeline, const Observation& at, const TensorView& tensor) noexcept;
  void WakeForResults() noexcept;
  void EndGraphStep() noexcept;
  uint8_t FlagsOfStep() const noexcept { return gate_.in_doubt() ? Record::kInDoubt : 0; }
  void CloseFrame() noexcept;
  void TakePlans(int64_t next_step) noexcept;
  void Apply(std::unique_ptr<PendingPlan> plan, int64_t next_step) noexcept;
  void SetRule(plan::StepRule rule, const NewWindow& window, int64_t at_step, int64_t first_step) noexcept;
  void Begin(std::unique_ptr<PendingPlan> plan, int64_t first_step) noexcept;
  void EndWindow(EndReason reason, int64_t last_step) noexcept;
  void SetCollecting() noexcept;
  void Retire(std::unique_ptr<PendingPlan> plan) noexcept;
  void PutBack(PendingPlan* plan) noexcept;

  // Step thread only.
  HookTable* hooks_ = nullptr;
  std::unique_ptr<const MovedHooks> moved_hooks_;  // kept alive: the hooks may still point to it
  std::unique_ptr<PendingPlan> current_;           // the window: its plan and pipeline
  std::unique_ptr<PendingPlan> continuation_;      // waits for the boundary
  plan::StepRule rule_;
  uint64_t produced_before_frame_ = 0;
  int64_t collected_before_plan_ = 0;  // of the window
  bool closed_ = false;

  // Read by autograd threads inside a step; changed between steps only.
  std::atomic<Pipeline*> active_{nullptr};

  stats::Engine* const engine_;
  const uint64_t wake_after_results_;
  std::atomic<uint64_t> results_asked_{0};
  PlanSlot slot_;
  BegunPlans begun_plans_;
  StepGate gate_;
  WakeUp* const drain_wake_up_;
  base::ForkGuard guard_;
  std::atomic<int64_t> step_;
  std::atomic<int64_t> observed_step_{-1};  // the last in which something was observed
  std::atomic<PlanId> plan_id_{0};
  std::atomic<PlanId> newest_begun_{0};
  std::atomic<int64_t> collected_{0};
  std::atomic<uint64_t> boundaries_{0};
  std::atomic<PendingPlan*> retired_{nullptr};
};

}  // namespace stepwatch::step
