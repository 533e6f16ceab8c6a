// The loop's side of the store: data waits in bounded memory, and a thread writes it.
//
// A batch leaves about once a second (Tick), and at once when an answer must wait until it is safe (Flush). A write
// that fails, most likely because the disk is full, is retried every second; meanwhile these wait: of lines the newest
// kLineBytesMax, of changes of incidents kChangesMax (older ones of the same incident are folded into later ones
// first), runs and silences once each, no series, messages until there are kDeliveriesMax. A disk that hangs blocks
// only the thread: after some seconds no caller waits for it any more. All methods and callbacks run on the thread of
// `loop`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "operations/store/kept_store.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace stepwatch::operations {

class StoreQueue {
 public:
  static constexpr size_t kLineBytesMax = size_t{32} << 20;
  static constexpr size_t kChangesMax = 20000;
  static constexpr size_t kDeliveriesMax = 20000;

  struct Callbacks {
    // Why the store cannot be written: once, until it can again.
    std::function<void(const std::string& why)> on_trouble;
    // It can; messages that waited may have been dropped, and must be written again.
    std::function<void()> on_recovery;
    // A message for the log.
    std::function<void(const std::string& note)> on_note = [](const std::string&) {};
    // Called once, when the store is open: its content, together with the data that waited until then.
    std::function<void(Restored restored)> on_restored = [](const Restored&) {};
    // It may lack earlier data: all data still known must be written again.
    std::function<void()> on_renewal = [] {};
  };
  struct Counts {
    int64_t lines_dropped = 0;    // that the store has never accepted
    int64_t changes_dropped = 0;  // likewise of incidents, the last one of each
    int64_t changes_lost = 0;     // of incidents, that it had and has lost
    int64_t set_aside = 0;        // number of times that its files were set aside
    int64_t bytes = 0;            // of the store, at the last check
    size_t waiting_bytes = 0;     // of lines
    bool in_trouble = false;
  };
  using Then = std::function<void()>;

  // Begins to open the store.
  StoreQueue(boost::asio::io_context& loop, StoreOptions options, StoreLimits limits, Callbacks callbacks);
  // Writes waiting data, for two seconds at most.
  ~StoreQueue();
  StoreQueue(const StoreQueue&) = delete;
  StoreQueue& operator=(const StoreQueue&) = delete;

  // Runs the loop until the store is open, or cannot be opened for now, for this time at most. Fails only if another
  // stepwatchd uses it.
  Status AwaitOpen(std::chrono::milliseconds at_most);
  // The batch to write next.
  Batch& next() { return next_; }
  // Writes now. `then` is called when it has been written, or cannot be written: the caller continues in both cases.
  void Flush(Then then = {});
  // About once a second; `t`: the present time.
  void Tick(double t);
  // Drops waiting data beyond the limits, as each Tick does.
  void Bound();
  void SetLimits(const StoreLimits& limits) { limits_ = limits; }
  Counts counts() const;

  // Runs `ask` on the thread of the store; it returns the work of the loop with the answer. `otherwise` runs instead if
  // there is no answer, because the store is not open, or its disk hangs.
  using Answer = std::function<void()>;
  void Ask(std::function<Answer(Store&)> ask, Answer otherwise);

 private:
  struct Written {
    Status status;
    Batch batch;  // as it was
    StoreReport report;
  };
  struct Question {
    Answer otherwise;
    int age = 0;  // in ticks
    bool is_answered = false;
  };
  void Write();
  void OnWritten(Written written);
  void OnStatus(const Status& status);
  void TakeReport(StoreReport report, const Batch& written);
  void DoThen();
  void BeginHang();
  void NoticeHang();

  boost::asio::io_context& loop_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<KeptStore> store_;  // shared with work that hangs
  const Callbacks callbacks_;
  StoreLimits limits_;
  Batch next_;
  std::vector<Then> then_;       // of next_
  std::vector<Then> in_flight_;  // of the running write
  std::vector<std::shared_ptr<Question>> questions_;
  Status status_;  // of the last write
  bool is_writing_ = false;
  bool writes_again_ = false;
  bool is_taken_ = false;
  bool hangs_ = false;
  int writing_ticks_ = 0;  // duration of the running write so far
  bool is_pruning_ = false;
  bool has_more_to_prune_ = false;
  double pruned_t_ = 0;
  double looked_t_ = 0;
  Counts counts_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  base::IoThread thread_{"stepwatch-store"};
};

}  // namespace stepwatch::operations
