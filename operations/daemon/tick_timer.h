// Ticks four times a second, and measures by how much each tick is late: the delay of the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "controller/watch/timer.h"

namespace stepwatch::operations {

class TickTimer {
 public:
  static constexpr int64_t kTicksOfSecond = 4;
  static constexpr int64_t kTicksOfMinute = 60 * kTicksOfSecond;

  // `running`: seconds of a clock that is never set.
  TickTimer(boost::asio::io_context& loop, std::function<double()> running)
      : running_(std::move(running)), timer_(loop) {}

  // Calls `tick` with the number of the tick, from 1 on.
  void Start(std::function<void(int64_t number)> tick);
  void Stop() { timer_.Cancel(); }
  // Seconds of the last tick.
  double delay() const { return delay_; }
  // The longest of the last minute.
  double delay_max() const { return delay_max_; }

 private:
  void Await();

  const std::function<double()> running_;
  std::function<void(int64_t number)> tick_;
  watch::Timer timer_;
  int64_t ticks_ = 0;
  double due_ = 0;
  double delay_ = 0;
  double delay_max_ = 0;
};

}  // namespace stepwatch::operations
