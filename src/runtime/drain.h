// The drain thread: empties the rings, puts step frames together, passes them to the sinks, keeps the ledger.
//
// Plans are drained in the order in which they were adopted, which is the order in which they begin.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/records/frame_assembler.h"
#include "src/runtime/data_plane.h"
#include "src/runtime/pipeline.h"
#include "src/runtime/sink_queue.h"
#include "src/runtime/status_board.h"
#include "stepwatch/sink.h"

namespace stepwatch::runtime {

class Drain {
 public:
  // `wake_up` is what the step thread posts. Both outlive the drain.
  Drain(StatusBoard* board, WakeUp* wake_up, size_t backlog_bytes_max);
  // Stop() must have been called, unless Start() was not.
  ~Drain();

  // --- loop thread ---
  void Start();
  // The sinks of the run, before the first Adopt. The ledger counts what the first one does.
  void SetSinks(std::vector<std::shared_ptr<Sink>> sinks);
  // Expects a plan's records; called before the plan is offered to the step thread.
  void Adopt(std::shared_ptr<Pipeline> pipeline);
  // The plan was superseded before it began.
  void Forget(const Pipeline* pipeline);
  // Drains all that is there, gives up at the deadline, ends the thread. Call after the step thread's side is closed.
  // False: a sink hangs in a call; the thread still runs. Call again, or Abandon.
  bool Stop(std::chrono::milliseconds deadline);
  // Lets go of the thread when a sink hangs. Then nothing that the drain uses may be freed.
  void Abandon();

 private:
  struct Stream {
    std::shared_ptr<Pipeline> pipeline;
    records::FrameAssembler assembler;
    Ledger ledger;  // written and dropped{late, sink_failed}; the rest is read from the pipeline at the end
    bool begun = false;
    bool ended = false;  // the last entry is out of the ring
  };

  void Run();
  void Rounds();
  void Round(bool now_or_never);
  void EmptyRings();
  void EmptyRing(Stream* stream);
  void Credit(const std::vector<SinkQueue::Outcome>& outcomes);
  void AdvanceSinks(bool now_or_never);
  void ReportDrained(bool last_call);
  void ReportFault(const char* what);
  void ReportHealth();
  std::chrono::milliseconds WaitTime() const;
  void TakeOrders();

  StatusBoard* const board_;
  WakeUp* const wake_up_;
  const size_t backlog_bytes_max_;
  std::thread thread_;

  std::mutex mutex_;
  std::vector<std::shared_ptr<Pipeline>> adopted_;  // guarded by mutex_
  std::vector<const Pipeline*> forgotten_;          // guarded by mutex_
  std::vector<std::shared_ptr<Sink>> new_sinks_;    // guarded by mutex_
  bool stopping_ = false;                           // guarded by mutex_
  SteadyTime deadline_;                             // guarded by mutex_
  bool finished_ = false;                           // guarded by mutex_
  std::condition_variable finish_;                  // finished_ has become true

  // Drain thread only.
  std::list<Stream> streams_;
  std::deque<SinkQueue> sinks_;
  bool failing_ = false;
};

}  // namespace stepwatch::runtime
