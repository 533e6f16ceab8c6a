// The way of results from other threads to the loop, which may be gone when a result comes.
#pragma once

#include <functional>

#include "src/base/mutex.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::watch {

// Thread-safe. Whoever owns the loop's side closes it before the loop goes; work posted later is discarded.
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
