// Calls on files that the loop needs and must not wait for: made on the executor's thread, answered on the loop, both
// in the order in which they were handed in.
#pragma once

#include <functional>
#include <memory>

#include "controller/watch/loop_mailbox.h"
#include "src/base/io_executor.h"
#include "stepwatch/status.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::journal {

// Loop thread only.
class FileQueue {
 public:
  // Owns or shares all that it touches: while a call hangs it outlives everything here.
  using Work = std::function<void()>;
  // `fault`: Ok, or the exception of the work.
  using Then = std::function<void(const Status& fault)>;

  // Both outlive the queue.
  FileQueue(boost::asio::io_context& loop, base::IoExecutor& io)
      : io_(io), mailbox_(std::make_shared<watch::LoopMailbox>(loop)) {}
  // Calls under way continue, and their results are dropped.
  ~FileQueue() { mailbox_->Close(); }
  FileQueue(const FileQueue&) = delete;
  FileQueue& operator=(const FileQueue&) = delete;

  // Does `work`, then calls `then` on the loop, in a handler of its own. Throws, with nothing done, if there is no
  // memory or no thread for it, or if too much waits for a call that hangs.
  void Do(Work work, Then then);
  // No call is under way.
  bool idle() const { return *under_way_ == 0; }

 private:
  base::IoExecutor& io_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<int> under_way_ = std::make_shared<int>(0);  // messages hold it weakly: it goes with the queue
};

}  // namespace stepwatch::journal
