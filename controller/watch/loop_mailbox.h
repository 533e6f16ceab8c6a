// Passes results of other threads to the loop, which may be destroyed before a result arrives.
#pragma once

#include <functional>

#include "src/base/mutex.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::watch {

// Thread-safe. The owner closes it before the loop is destroyed; work posted later is discarded.
class LoopMailbox {
 public:
  explicit LoopMailbox(boost::asio::io_context& loop) : loop_(&loop) {}

  void Post(std::function<void()> work);
  void Close();

 private:
  base::Mutex mutex_;
  boost::asio::io_context* loop_ STEPWATCH_GUARDED_BY(mutex_);  // null: closed
};

}  // namespace stepwatch::watch
