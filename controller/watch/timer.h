// Calls a function on the loop at a later time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace stepwatch::watch {

// Loop thread only. At most one function is pending: a new one replaces it. A function that is replaced or cancelled,
// or whose timer is destroyed, is never called, even if its time is up already. The function may set, cancel or destroy
// its own timer.
class Timer {
 public:
  using Clock = std::chrono::steady_clock;
  using Work = std::function<void()>;

  // The loop outlives the timer.
  explicit Timer(boost::asio::io_context& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Both throw if memory is exhausted, and then no function is pending.
  void After(Clock::duration time, Work work);
  void At(Clock::time_point time, Work work);
  void Cancel();

 private:
  struct State;
  static void Wait(const std::shared_ptr<State>& state, Work work);

  const std::shared_ptr<State> state_;
};

}  // namespace stepwatch::watch
