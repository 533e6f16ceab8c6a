// The drain thread: empties the rings, assembles step frames, passes them to the sinks, keeps the ledger.
//
// Plans are drained in the order in which they begin. Pending results of a device are fetched here; a frame with
// pending results, and all frames behind it, wait for them.
//
// No fault ends the thread. A stage of a round that throws is reported and repeated in the next round; running out of
// memory leaves its state unchanged, so that it only delays records. In the last round, records that cannot be kept are
// counted as dropped.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "src/base/mutex.h"
#include "src/drain/alert_manager.h"
#include "src/drain/latest_values.h"
#include "src/drain/mailbox.h"
#include "src/drain/plan_stream.h"
#include "src/drain/sink_queue.h"
#include "src/drain/status_board.h"
#include "src/step/pending_plan.h"
#include "src/step/wake_up.h"
#include "stepwatch/sink.h"

namespace stepwatch::drain {

enum class StopOutcome : uint8_t {
  kDrained,
  kGaveUp,  // records were dropped at the deadline
  kHangs,   // a sink hangs in a call; the thread still runs
};

class Drain {
 public:
  // The clock for the time that results have been pending. Called by the drain thread.
  using Clock = std::function<SteadyTime()>;

  // The step thread posts `wake_up` and puts plans that begin into `begun_plans`. All must outlive the drain.
  Drain(StatusBoard* board, stats::Engine* engine, step::WakeUp* wake_up, step::BegunPlans* begun_plans,
        size_t backlog_bytes_max, Clock clock = std::chrono::steady_clock::now);
  // Stop() must have been called, unless Start() was not.
  ~Drain();

  // --- loop thread ---
  // Sets the alarm handling; before Start. Without it, there are no alarms.
  void SetAlertManager(std::unique_ptr<AlertManager> alert_manager) { alert_manager_ = std::move(alert_manager); }
  void Start();
  // Sets the sinks of the run, before the first plan begins. The ledger counts the records of the first one.
  void SetSinks(std::vector<std::shared_ptr<Sink>> sinks);
  // Creates the drain's part of a plan, which comes back through `begun_plans` when the plan begins.
  std::unique_ptr<step::BegunPlan> MakeStream(std::shared_ptr<step::Pipeline> pipeline) const;
  // Keeps the records of every site's last step.
  void KeepLatest() { mailbox_.KeepLatest(); }
  // Drains all records, pending results included, gives up at `give_up_at`, and ends the thread. The step thread's side
  // must be closed. A thread that has not ended at `hangs_at` hangs: call again, or Detach.
  StopOutcome Stop(SteadyTime give_up_at, SteadyTime hangs_at);
  // Detaches a thread that hangs in a sink. Objects used by the drain must then never be freed.
  void Detach();

  // --- any thread ---
  // The newest plan with rows written by the first sink; 0: none.
  PlanId written_plan() const { return written_plan_.load(std::memory_order_relaxed); }

  // --- any thread but the drain's ---
  // See Monitor::Latest; tags are for `rank`.
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout, int rank = 0);
  // Waits until all earlier observations are passed to the sinks and flushed by them, except those of the running step.
  // Returns false at the timeout, because a device has not delivered or a sink rejects data.
  bool Flush(std::chrono::milliseconds timeout);

  // --- the drain thread, or the caller that drives a drain without a thread ---
  // One round over all queues. `now_or_never`: sinks do not wait after a failure. `last_call`: data that cannot be
  // passed on is discarded. Does not throw.
  void Round(bool now_or_never, bool last_call) noexcept;
  // After the last round: counts the records that sinks have not accepted, and reports all plans.
  void Conclude() noexcept;
  // True if data waits to be passed on.
  bool HasBacklog() const;

 private:
  void Run() noexcept;
  // Returns false if records were discarded.
  bool Rounds() noexcept;
  template <class Stage>
  void CatchAndReport(const Stage& stage) noexcept;
  void TakeRequests() noexcept;
  void EmptyRings(bool last_call);
  void ReportBeginAndFinish(PlanStream* stream) noexcept;
  void ReportPauses(PlanStream* stream) noexcept;
  void ReportCost(PlanStream* stream) noexcept;
  void ReportFullRing(PlanStream* stream) noexcept;
  uint64_t AddDeviceTimes(std::array<uint64_t, step::kCostCount>* ns) noexcept;
  void PassOnFrames(bool last_call);
  void PassOnFrames(PlanStream* stream, bool last_call);
  void PassOn(PlanStream* stream, const AssembledFrame& frame);
  void PassOnEnd(PlanStream* stream, bool last_call);
  void MakeRoomInSinks();
  void Credit(PlanId plan, uint64_t written, uint64_t discarded) noexcept;
  void AnswerQuestions();
  void ReportDrained(bool last_call) noexcept;
  void ReportLoss(const PlanStream& stream, const Ledger& ledger) noexcept;
  void ReportFault(const char* what) noexcept;
  void ReportHealth() noexcept;
  bool AnyPending() const;
  std::chrono::milliseconds WaitTime() const;
  void TakeBegunPlans() noexcept;

  StatusBoard* const board_;
  stats::Engine* const engine_;
  step::WakeUp* const wake_up_;
  step::BegunPlans* const begun_plans_;
  const size_t backlog_bytes_max_;
  const Clock clock_;
  Mailbox mailbox_;
  std::thread thread_;  // loop thread only
  std::atomic<PlanId> written_plan_{0};
  std::atomic<bool> has_begun_{false};  // the thread; its end closes the mailbox

  base::Mutex mutex_;
  std::list<SinkQueue> new_sinks_ STEPWATCH_GUARDED_BY(mutex_);
  bool stopping_ STEPWATCH_GUARDED_BY(mutex_) = false;
  SteadyTime give_up_at_ STEPWATCH_GUARDED_BY(mutex_);
  bool gave_up_ STEPWATCH_GUARDED_BY(mutex_) = false;
  bool finished_ STEPWATCH_GUARDED_BY(mutex_) = false;
  base::Condition finish_;  // signals that finished_ is true

  // Drain thread only.
  boost::intrusive::slist<PlanStream, boost::intrusive::cache_last<true>> streams_;  // owned
  std::unique_ptr<AlertManager> alert_manager_;
  std::list<SinkQueue> sinks_;
  kernels::DeviceTimes device_times_{};  // not yet reported
  std::optional<LatestValues> latest_;   // set once requested
  bool failing_ = false;                 // true once the failure was reported to the loop
  bool fault_in_round_ = false;
};

}  // namespace stepwatch::drain
