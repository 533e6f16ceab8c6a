// The loop's side of the store: what is to be written waits in bounded memory, and a thread writes it.
//
// A batch leaves about once a second (Tick), and at once when somebody must not be told of it before it is safe
// (Flush). A store that cannot be written to, most likely for want of room, is tried again with the next batch; what it
// has not taken waits: of lines the newest kLineBytesMax, of changes of incidents kChangesMax (older ones of the same
// incident are folded into later ones first), runs and silences once each, no series. All methods and callbacks belong
// to the thread that runs `loop`.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/watch/loop_mailbox.h"
#include "operations/store/store.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace stepwatch::operations {

class StoreQueue {
 public:
  static constexpr size_t kLineBytesMax = size_t{32} << 20;
  static constexpr size_t kChangesMax = 20000;

  struct Callbacks {
    // The store takes nothing, and why: once, until it does again.
    std::function<void(const std::string& why)> on_trouble;
    std::function<void()> on_recovery;
  };
  struct Counts {
    int64_t lines_dropped = 0;  // that the store has never taken
    int64_t bytes = 0;          // of the store, at the last look
    size_t waiting_bytes = 0;   // of lines
    bool in_trouble = false;
  };
  using Then = std::function<void()>;

  StoreQueue(boost::asio::io_context& loop, std::unique_ptr<Store> store, StoreLimits limits, Callbacks callbacks);
  // Writes what waits, for two seconds at most.
  ~StoreQueue();
  StoreQueue(const StoreQueue&) = delete;
  StoreQueue& operator=(const StoreQueue&) = delete;

  // What is to be written next.
  Batch& next() { return next_; }
  // Writes now. `then` is called when it has been written, or cannot be: a caller tells it all the same.
  void Flush(Then then = {});
  // About once a second; `t`: now.
  void Tick(double t);
  void SetLimits(const StoreLimits& limits) { limits_ = limits; }
  Counts counts() const;

  // Asks the store on its thread; `ask` returns what the loop is to do with the answer. False: too much waits.
  using Answer = std::function<void()>;
  bool Ask(std::function<Answer(Store&)> ask);

 private:
  struct Written {
    Status status;
    Batch batch;  // as it was, if it was not written
    int64_t bytes = 0;
  };
  void Write();
  void OnWritten(Written written);
  void Bound();

  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<Store> store_;  // shared with work that hangs
  const Callbacks callbacks_;
  StoreLimits limits_;
  Batch next_;
  std::vector<Then> then_;       // of what is in next_
  std::vector<Then> in_flight_;  // of what is being written
  bool is_writing_ = false;
  bool writes_again_ = false;
  double pruned_t_ = 0;
  Counts counts_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  base::IoThread thread_{"stepwatch-store"};
};

}  // namespace stepwatch::operations
