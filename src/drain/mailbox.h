// What other threads ask of the drain and wait for: a flush, the latest values.
//
// Whoever asks brings the memory of the question with it; the drain takes it without an allocation. The asker and the
// drain share a question, so that neither has to wait for the other to be done with it.
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

  // Outlives the mailbox.
  explicit Mailbox(step::WakeUp* wake_up) : wake_up_(wake_up) {}

  // --- any thread but the drain's; once closed, they return at once ---
  // True: all that was enqueued before the call is out. False: it was not at the deadline.
  bool Flush(Time deadline);
  std::vector<LatestValue> Latest(SiteKind kind, int rank, Time deadline);
  void KeepLatest();

  // --- drain thread ---
  // Questions that came before are answered by the calls below; what comes later waits for the next round.
  void Take() noexcept;
  // Somebody asked for the latest values, ever.
  bool keeps_latest() const { return takes_latest_; }
  void AnswerFlushes(bool is_out, Time now) noexcept;
  // A question that is not due is left for later if numbers are still on their way.
  bool HasDueQuestion(bool pending, Time now) const;
  void AnswerLatest(bool pending, Time now, const LatestOf& latest_of);
  // Nobody answers any more.
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
  base::Condition answer_;  // something was answered, or the mailbox was closed
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
