// Whoever reads files of a run that goes on waits here until they are as far as the run.
#include <algorithm>

#include "src/drain/drain.h"

namespace stepwatch::drain {

bool Drain::Flush(std::chrono::milliseconds timeout) {
  const auto order = std::make_shared<FlushOrder>();
  order->deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock<std::mutex> lock(mutex_);
  if (finished_ || !thread_.joinable()) return true;
  flush_orders_.push_back(order);
  wake_up_->Post();
  // The drain answers at the deadline; it may be in a call of a sink that hangs.
  answer_.wait_until(lock, order->deadline + std::chrono::milliseconds(100), [&] { return order->done || finished_; });
  return finished_ || order->in_time;
}

void Drain::AnswerFlushes() {
  if (flushes_.empty()) return;
  const bool is_out = !HasBacklog();
  const SteadyTime now = std::chrono::steady_clock::now();
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(flushes_, [&](const std::shared_ptr<FlushOrder>& order) {
    if (!is_out && now < order->deadline) return false;
    order->in_time = is_out;
    return order->done = true;
  });
  answer_.notify_all();
}

}  // namespace stepwatch::drain
