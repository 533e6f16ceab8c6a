// File calls of the loop, which must not wait for them: made on the executor's thread, answered on the loop, both in
// the order of the requests.
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
  // Owns or shares all that it uses: a call that hangs outlives every object here.
  using Work = std::function<void()>;
  // `fault`: Ok, or the exception of the work.
  using Then = std::function<void(const Status& fault)>;

  // Both must outlive the queue.
  FileQueue(boost::asio::io_context& loop, base::IoExecutor& io)
      : io_(io), mailbox_(std::make_shared<watch::LoopMailbox>(loop)) {}
  // Running calls continue, and their results are dropped.
  ~FileQueue() { mailbox_->Close(); }
  FileQueue(const FileQueue&) = delete;
  FileQueue& operator=(const FileQueue&) = delete;

  // Runs `work`, then calls `then` on the loop, in a handler of its own. Throws, without effect, if there is no memory
  // or no thread for it, or if too much waits for a call that hangs.
  void Do(Work work, Then then);
  // True if no call is running.
  bool idle() const { return *under_way_ == 0; }

 private:
  base::IoExecutor& io_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<int> under_way_ = std::make_shared<int>(0);  // messages hold it weakly: it ends with the queue
};

}  // namespace stepwatch::journal
