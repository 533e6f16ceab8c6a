// Blocking requests of other threads to the drain: a flush, the latest values.
//
// The requesting thread allocates the request; the drain accepts it without allocation. Both share it, so that neither
// has to wait for the other to finish with it.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "src/base/mutex.h"
#include "src/step/wake_up.h"
#include "stepwatch/monitor.h"

namespace stepwatch::drain {

class Mailbox {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using LatestOf = std::function<std::vector<LatestValue>(SiteKind kind, int rank)>;

  // `wake_up` must outlive the mailbox.
  explicit Mailbox(step::WakeUp* wake_up) : wake_up_(wake_up) {}

  // --- any thread but the drain's; after Close, calls return at once ---
  // Returns true if all observations before the call are out, false at the deadline.
  bool Flush(Time deadline);
  std::vector<LatestValue> Latest(SiteKind kind, int rank, Time deadline);
  void KeepLatest();

  // --- drain thread ---
  // Accepts waiting requests, which the calls below answer; later ones wait for the next round.
  void Take() noexcept;
  // True once the latest values were requested.
  bool keeps_latest() const { return takes_latest_; }
  void AnswerFlushes(bool is_out, Time now) noexcept;
  // A request that is not due waits while results are pending.
  bool HasDueQuestion(bool pending, Time now) const;
  void AnswerLatest(bool pending, Time now, const LatestOf& latest_of);
  // Ends the service: waiting and later requests return at once.
  void Close() noexcept;

 private:
  struct FlushRequest {
    Time deadline;
    bool done = false;     // guarded by the mutex of the mailbox
    bool in_time = false;  // likewise
  };
  struct Question {
    SiteKind kind;
    int rank;
    Time deadline;
    bool answered = false;            // guarded by the mutex of the mailbox
    std::vector<LatestValue> answer;  // likewise
  };

  step::WakeUp* const wake_up_;

  base::Mutex mutex_;
  base::Condition answer_;  // a request was answered, or the mailbox was closed
  std::list<std::shared_ptr<Question>> new_questions_ STEPWATCH_GUARDED_BY(mutex_);
  std::list<std::shared_ptr<FlushRequest>> new_flush_requests_ STEPWATCH_GUARDED_BY(mutex_);
  bool keep_latest_ STEPWATCH_GUARDED_BY(mutex_) = false;
  bool closed_ STEPWATCH_GUARDED_BY(mutex_) = false;

  // Drain thread only.
  std::list<std::shared_ptr<Question>> questions_;
  std::list<std::shared_ptr<FlushRequest>> flush_requests_;
  bool takes_latest_ = false;
};

}  // namespace stepwatch::drain
