#include "controller/watch/timer.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <utility>

namespace stepwatch::watch {

struct Timer::State {
  explicit State(boost::asio::io_context& loop) : timer(loop) {}

  void Forget() {
    ++number;
    work = nullptr;
  }

  boost::asio::steady_timer timer;
  uint64_t number = 0;  // of the current wait; handlers of older waits do nothing
  Work work;            // empty: none is pending
};

Timer::Timer(boost::asio::io_context& loop) : state_(std::make_shared<State>(loop)) {}

Timer::~Timer() = default;

void Timer::After(Clock::duration time, Work work) {
  state_->Forget();
  state_->timer.expires_after(time);
  Wait(state_, std::move(work));
}

void Timer::At(Clock::time_point time, Work work) {
  state_->Forget();
  state_->timer.expires_at(time);
  Wait(state_, std::move(work));
}

void Timer::Cancel() {
  state_->Forget();
  state_->timer.cancel();
}

// The work is called after the last use of the state: it may destroy the timer.
void Timer::Wait(const std::shared_ptr<State>& state, Work work) {
  state->timer.async_wait([waiting = std::weak_ptr(state), number = state->number](const boost::system::error_code&) {
    std::shared_ptr<State> living = waiting.lock();
    if (!living || living->number != number) return;
    const Work due = std::exchange(living->work, nullptr);
    living.reset();
    due();
  });
  state->work = std::move(work);
}

}  // namespace stepwatch::watch
