// Runs small pieces of long work, one in each turn of the loop, so that requests and ticks come between them.
#pragma once

#include <deque>
#include <functional>

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class TurnQueue {
 public:
  // The loop must not run any more when this is destroyed.
  explicit TurnQueue(boost::asio::io_context& loop) : loop_(loop) {}
  TurnQueue(const TurnQueue&) = delete;
  TurnQueue& operator=(const TurnQueue&) = delete;

  // After the pieces that wait already.
  void Add(std::function<void()> work);

 private:
  void Post();

  boost::asio::io_context& loop_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace stepwatch::operations
