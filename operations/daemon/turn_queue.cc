#include "operations/daemon/turn_queue.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace stepwatch::operations {

void TurnQueue::Add(std::function<void()> work) {
  waiting_.push_back(std::move(work));
  if (waiting_.size() == 1) Post();
}

void TurnQueue::Post() {
  boost::asio::post(loop_, [this] {
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    if (!waiting_.empty()) Post();
    work();
  });
}

}  // namespace stepwatch::operations
