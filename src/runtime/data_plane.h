// The step thread's side of the monitor: which plan is in force, which steps it collects, records into its ring.
//
// Observe*, Measure, Enqueue and Discard may also be called by autograd threads inside a step; EndStep only by the step
// thread, with no other call running. Nothing here locks, allocates, or does I/O, and nothing waits but EndStep, before
// a step that ranks are about to agree on (StepGate); the semaphore that wakes the drain is posted once for each
// collected step, and whenever many results of a device are under way.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "src/base/fork_guard.h"
#include "src/plan/plan_slot.h"
#include "src/runtime/pipeline.h"
#include "src/runtime/step_gate.h"
#include "src/stats/engine.h"
#include "stepwatch/monitor.h"

namespace stepwatch::runtime {

// Wakes the drain; sem_post is the one wake-up that takes no lock.
class WakeUp {
 public:
  WakeUp() { sem_init(&semaphore_, 0, 0); }
  ~WakeUp() { sem_destroy(&semaphore_); }
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  void Post() noexcept { sem_post(&semaphore_); }
  // Returns after a Post or the timeout, with all posts so far consumed.
  void Wait(std::chrono::milliseconds timeout);

 private:
  sem_t semaphore_;
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
  // Applies a waiting offer before the first step, without ending one.
  void BeginFirstStep() noexcept;
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
  void ObserveAgreement(const Observation& at, const TensorView& gradient, const TensorView& momentum) noexcept;

  // --- any thread ---
  const std::atomic<bool>* collecting_flag() { return &guard_.flag(); }
  bool InOwner() const noexcept { return guard_.InOwner(); }
  // Whoever reads a step here sees the plan slot as it was after the look at it for this step.
  int64_t step() const { return step_.load(std::memory_order_acquire); }
  PlanId plan_id() const { return plan_id_.load(std::memory_order_relaxed); }
  // The newest plan that ever was in force.
  PlanId newest_begun() const { return newest_begun_.load(std::memory_order_acquire); }
  int64_t collected() const { return collected_.load(std::memory_order_relaxed); }
  bool offer_waiting() const { return slot_.waiting(); }
  const StepGate& gate() const { return gate_; }

  // --- loop thread ---
  plan::PlanSlot& slot() { return slot_; }
  StepGate& gate() { return gate_; }
  // Frees offers that no thread can still be using.
  void Reclaim();

 private:
  Pipeline* Collecting() noexcept;
  void FillKey(const Pipeline& pipeline, const Observation& at, Record* record) const noexcept;
  void Push(Pipeline* pipeline, const Record& record) noexcept;
  void CountUnmeasured(Pipeline* pipeline, StatusCode code) noexcept;
  void ObserveWithRoom(Pipeline* pipeline, const Observation* at, const TensorView* tensors, size_t count) noexcept;
  void ObserveOne(Pipeline* pipeline, const Observation& at, const TensorView& tensor) noexcept;
  void WakeForResults() noexcept;
  void EndGraphStep() noexcept;
  void CloseFrame() noexcept;
  void TakeOffer(int64_t next_step) noexcept;
  void BeginWindow(std::unique_ptr<Offer> offer, int64_t first_step) noexcept;
  void PassOver(std::unique_ptr<Offer> offer, int64_t step) noexcept;
  void EndWindow(records::EndReason reason) noexcept;
  void SetCollecting() noexcept;
  void Retire(Offer* offer) noexcept;

  // Step thread only.
  HookTable* hooks_ = nullptr;
  std::unique_ptr<Offer> current_;  // the window: its plan and pipeline
  plan::StepRule rule_;
  uint64_t produced_before_frame_ = 0;
  bool closed_ = false;

  // Read by autograd threads inside a step; changed between steps only.
  std::atomic<Pipeline*> active_{nullptr};

  stats::Engine* const engine_;
  const uint64_t wake_after_results_;
  std::atomic<uint64_t> results_asked_{0};
  plan::PlanSlot slot_;
  StepGate gate_;
  WakeUp* const drain_wake_up_;
  base::ForkGuard guard_;
  std::atomic<int64_t> step_;
  std::atomic<PlanId> plan_id_{0};
  std::atomic<PlanId> newest_begun_{0};
  std::atomic<int64_t> collected_{0};
  std::atomic<uint64_t> boundaries_{0};
  std::atomic<Offer*> retired_{nullptr};
};

}  // namespace stepwatch::runtime
