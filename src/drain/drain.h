// The drain thread: empties the rings, puts step frames together, passes them to the sinks, keeps the ledger.
//
// Plans are drained in the order in which they begin. Numbers that a device still owes are fetched here; a frame with
// such numbers, and all frames behind it, wait for them.
//
// Nothing here ends the thread. A stage of a round that throws is told and tried again in the next round; what runs out
// of memory has changed nothing by then, so that a while without memory delays records. In the last round what cannot
// be kept is counted.
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
  kGaveUp,  // records were dropped because the time was up
  kHangs,   // a sink hangs in a call; the thread still runs
};

class Drain {
 public:
  // Says how long results have been waited for. Called by the drain thread.
  using Clock = std::function<SteadyTime()>;

  // `wake_up` is what the step thread posts, `begun_plans` where it puts the plans that it begins. All outlive the
  // drain.
  Drain(StatusBoard* board, stats::Engine* engine, step::WakeUp* wake_up, step::BegunPlans* begun_plans,
        size_t backlog_bytes_max, Clock clock = std::chrono::steady_clock::now);
  // Stop() must have been called, unless Start() was not.
  ~Drain();

  // --- loop thread ---
  // Who looks for alarms; before Start. Without, nobody does.
  void SetAlertManager(std::unique_ptr<AlertManager> alert_manager) { alert_manager_ = std::move(alert_manager); }
  void Start();
  // The sinks of the run, before the first plan begins. The ledger counts what the first one does.
  void SetSinks(std::vector<std::shared_ptr<Sink>> sinks);
  // What a plan brings along for the drain, and what comes back through `begun_plans` when it begins.
  std::unique_ptr<step::BegunPlan> MakeStream(std::shared_ptr<step::Pipeline> pipeline) const;
  // Keeps the records of every site's last step.
  void KeepLatest() { mailbox_.KeepLatest(); }
  // Drains all that is there, results under way included, stops trying at `give_up_at`, ends the thread. Call after the
  // step thread's side is closed. A thread that has not ended at `hangs_at` hangs: call again, or Detach.
  StopOutcome Stop(SteadyTime give_up_at, SteadyTime hangs_at);
  // Detaches a thread that hangs in a sink. Nothing that the drain uses may be freed then.
  void Detach();

  // --- any thread ---
  // The newest plan of which the first sink has written rows; 0: none.
  PlanId written_plan() const { return written_plan_.load(std::memory_order_relaxed); }

  // --- any thread but the drain's ---
  // See Monitor::Latest; tags are for `rank`.
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout, int rank = 0);
  // Waits until all that was enqueued before is out: passed to the sinks, and flushed by them; the step that still runs
  // is not. False: not in time, because a device owes numbers or a sink takes nothing.
  bool Flush(std::chrono::milliseconds timeout);

  // --- the drain thread, or whoever drives a drain that was not started ---
  // One look at everything. `now_or_never`: sinks do not wait after a failure. `last_call`: what cannot be passed on is
  // discarded. Does not throw.
  void Round(bool now_or_never, bool last_call) noexcept;
  // After the last round: counts what the sinks have not taken, and reports all plans.
  void Conclude() noexcept;
  // Something waits to be passed on.
  bool HasBacklog() const;

 private:
  void Run() noexcept;
  // False: it discarded records.
  bool Rounds() noexcept;
  template <class Stage>
  void Guarded(const Stage& stage) noexcept;
  void TakeRequests() noexcept;
  void EmptyRings(bool last_call);
  void TellBeginAndFinish(PlanStream* stream) noexcept;
  void TellPauses(PlanStream* stream) noexcept;
  void TellCost(PlanStream* stream) noexcept;
  void TellFullRing(PlanStream* stream) noexcept;
  uint64_t AddDeviceTimes(std::array<uint64_t, step::kCostCount>* ns) noexcept;
  void PassOnFrames(bool last_call);
  void PassOnFrames(PlanStream* stream, bool last_call);
  void PassOn(PlanStream* stream, const AssembledFrame& frame);
  void PassOnEnd(PlanStream* stream, bool last_call);
  void MakeRoomInSinks();
  void Credit(PlanId plan, uint64_t written, uint64_t discarded) noexcept;
  void AnswerQuestions();
  void ReportDrained(bool last_call) noexcept;
  void TellLoss(const PlanStream& stream, const Ledger& ledger) noexcept;
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
  std::atomic<bool> has_begun_{false};  // the thread; when it has ended the mailbox is closed

  base::Mutex mutex_;
  std::list<SinkQueue> new_sinks_ STEPWATCH_GUARDED_BY(mutex_);
  bool stopping_ STEPWATCH_GUARDED_BY(mutex_) = false;
  SteadyTime give_up_at_ STEPWATCH_GUARDED_BY(mutex_);
  bool gave_up_ STEPWATCH_GUARDED_BY(mutex_) = false;
  bool finished_ STEPWATCH_GUARDED_BY(mutex_) = false;
  base::Condition finish_;  // finished_ has become true

  // Drain thread only.
  boost::intrusive::slist<PlanStream, boost::intrusive::cache_last<true>> streams_;  // owned
  std::unique_ptr<AlertManager> alert_manager_;
  std::list<SinkQueue> sinks_;
  kernels::DeviceTimes device_times_{};  // not told yet
  std::optional<LatestValues> latest_;   // from the moment that it is wanted
  bool failing_ = false;                 // and the loop was told
  bool fault_in_round_ = false;
};

}  // namespace stepwatch::drain
