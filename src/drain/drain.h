// The drain thread: empties the rings, puts step frames together, passes them to the sinks, keeps the ledger.
//
// Plans are drained in the order in which they were adopted, which is the order in which they begin. Numbers that a
// device still owes are fetched here; a frame with such numbers, and all frames behind it, wait for them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "src/drain/alert_manager.h"
#include "src/drain/frame_assembler.h"
#include "src/drain/latest_values.h"
#include "src/drain/sink_queue.h"
#include "src/drain/status_board.h"
#include "src/drain/waiting_frames.h"
#include "src/step/data_plane.h"
#include "src/step/pipeline.h"
#include "stepwatch/sink.h"

namespace stepwatch::drain {

class Drain {
 public:
  // Says how long results have been waited for. Called by the drain thread.
  using Clock = std::function<SteadyTime()>;

  // `wake_up` is what the step thread posts. All outlive the drain.
  Drain(StatusBoard* board, stats::Engine* engine, step::WakeUp* wake_up, size_t backlog_bytes_max,
        Clock clock = std::chrono::steady_clock::now);
  // Stop() must have been called, unless Start() was not.
  ~Drain();

  // --- loop thread ---
  // Who looks for alarms; before Start. Without, nobody does.
  void SetAlertManager(std::unique_ptr<AlertManager> alert_manager) { alert_manager_ = std::move(alert_manager); }
  void Start();
  // The sinks of the run, before the first Adopt. The ledger counts what the first one does.
  void SetSinks(std::vector<std::shared_ptr<Sink>> sinks);
  // Expects a plan's records; called before the plan is offered to the step thread.
  void Adopt(std::shared_ptr<step::Pipeline> pipeline);
  // The plan was superseded before it began.
  void Forget(std::shared_ptr<const step::Pipeline> pipeline);
  // Keeps the records of every site's last step.
  void KeepLatest();
  // Drains all that is there, results under way included, gives up at the deadline, ends the thread. Call after the
  // step thread's side is closed. False: a sink hangs in a call; the thread still runs. Call again, or Abandon.
  bool Stop(std::chrono::milliseconds deadline);
  // Lets go of the thread when a sink hangs. Then nothing that the drain uses may be freed.
  void Abandon();

  // --- any thread but the drain's ---
  // See Monitor::Latest; tags are for `rank`.
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout, int rank = 0);
  // Waits until all that was enqueued before is out: passed to the sinks, and flushed by them; the step that still runs
  // is not. False: not in time, because a device owes numbers or a sink takes nothing.
  bool Flush(std::chrono::milliseconds timeout);

 private:
  struct FlushOrder {
    SteadyTime deadline;
    bool done = false;
    bool in_time = false;
  };
  struct Question {
    SiteKind kind;
    int rank;
    SteadyTime deadline;
    std::vector<LatestValue> answer;
    bool answered = false;
  };

  struct Stream {
    Stream(stats::Engine* engine, std::shared_ptr<step::Pipeline> its_pipeline)
        : pipeline(std::move(its_pipeline)), waiting(engine, pipeline) {}

    std::shared_ptr<step::Pipeline> pipeline;
    FrameAssembler assembler;
    WaitingFrames waiting;
    Ledger ledger;        // written and dropped{sink_failed}; the rest is read elsewhere at the end
    uint64_t joined = 0;  // records that went into the rows of others
    bool begun = false;
    bool finished = false;  // the last entry is out of the ring
    bool ended = false;     // and the last frame has gone to the sinks
  };

  void Run();
  void Rounds();
  void Round(bool now_or_never, bool last_call);
  void EmptyRings(bool last_call);
  bool EmptyRing(Stream* stream, bool last_call);
  void Take(Stream* stream, const step::RingEntry& entry);
  void TakeColumns(Stream* stream, int64_t step);
  void TellBeginAndFinish(Stream* stream);
  void PassOnFrames(bool last_call);
  void PassOnFrames(Stream* stream, bool last_call);
  void Credit(const std::vector<SinkQueue::Outcome>& outcomes);
  void AdvanceSinks(bool now_or_never);
  void AnswerQuestions();
  void AnswerFlushes();
  void AddLatest(const Stream& stream, const AssembledFrame& frame);
  void ReportDrained(bool last_call);
  void CheckMissing(const Stream& stream, const Ledger& ledger);
  void TellLostColumns(const step::Pipeline& pipeline);
  void ReportFault(const char* what);
  void ReportHealth();
  bool HasBacklog() const;
  std::chrono::milliseconds WaitTime() const;
  void TakeOrders();

  StatusBoard* const board_;
  stats::Engine* const engine_;
  step::WakeUp* const wake_up_;
  const size_t backlog_bytes_max_;
  const Clock clock_;
  std::thread thread_;

  std::mutex mutex_;
  std::vector<std::shared_ptr<step::Pipeline>> adopted_;  // guarded by mutex_
  // Guarded by mutex_. Held until they are looked for: another pipeline must not get the place of one that is gone.
  std::vector<std::shared_ptr<const step::Pipeline>> forgotten_;
  std::vector<std::shared_ptr<Sink>> new_sinks_;           // guarded by mutex_
  std::vector<std::shared_ptr<Question>> asked_;           // guarded by mutex_; what they hold as well
  std::vector<std::shared_ptr<FlushOrder>> flush_orders_;  // guarded by mutex_; what they hold as well
  bool keep_latest_ = false;                               // guarded by mutex_
  bool stopping_ = false;                                  // guarded by mutex_
  SteadyTime deadline_;                                    // guarded by mutex_
  bool finished_ = false;                                  // guarded by mutex_
  std::condition_variable finish_;                         // finished_ has become true
  std::condition_variable answer_;                         // a question was answered

  // Drain thread only.
  std::list<Stream> streams_;
  std::unique_ptr<AlertManager> alert_manager_;
  std::deque<SinkQueue> sinks_;
  std::vector<std::shared_ptr<Question>> questions_;
  std::vector<std::shared_ptr<FlushOrder>> flushes_;
  std::optional<LatestValues> latest_;  // from the moment that it is wanted
  bool failing_ = false;
};

}  // namespace stepwatch::drain
