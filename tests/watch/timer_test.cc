#include "controller/watch/timer.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/catch.h"

namespace stepwatch::watch {
namespace {

using namespace std::chrono_literals;

// A timer whose time is up, beside a handler that runs before what the timer calls.
struct DueTimer {
  explicit DueTimer(std::function<void(DueTimer&)> first) {
    boost::asio::post(loop, [this, first = std::move(first)] { first(*this); });
    timer->After(0s, [this] { called += "due "; });
  }

  boost::asio::io_context loop;
  std::unique_ptr<Timer> timer = std::make_unique<Timer>(loop);
  std::string called;
};

TEST_CASE("a timer calls its function once, on the loop, when its time is up") {
  boost::asio::io_context loop;
  Timer timer(loop);
  int calls = 0;
  SECTION("after a duration") {
    timer.After(0s, [&] { ++calls; });
  }
  SECTION("at a time that has passed") {
    timer.At(Timer::Clock::now() - 1h, [&] { ++calls; });
  }
  CHECK(calls == 0);
  loop.run();
  CHECK(calls == 1);
}

TEST_CASE("a function whose time has not come is not called") {
  boost::asio::io_context loop;
  Timer timer(loop);
  int calls = 0;
  SECTION("after an hour") {
    timer.After(1h, [&] { ++calls; });
  }
  SECTION("at a time that never comes") {
    timer.At(Timer::Clock::time_point::max(), [&] { ++calls; });
  }
  loop.poll();
  CHECK(calls == 0);
}

TEST_CASE("a function that was cancelled is not called, and the loop waits for it no more") {
  boost::asio::io_context loop;
  Timer timer(loop);
  int calls = 0;
  timer.After(1h, [&] { ++calls; });
  timer.Cancel();
  loop.run();
  CHECK(calls == 0);
}

TEST_CASE("a timer moved to another time calls the newer function alone") {
  boost::asio::io_context loop;
  Timer timer(loop);
  std::string called;
  SECTION("from a later time") {
    timer.After(1h, [&] { called += "older"; });
  }
  SECTION("from a time that is up") {
    timer.After(0s, [&] { called += "older"; });
  }
  timer.After(0s, [&] { called += "newer"; });
  loop.run();
  CHECK(called == "newer");
}

// The loop queues the wait that is over behind the handler that was posted, and then runs that handler.
TEST_CASE("what happens between a time that is up and the call still prevents the call") {
  SECTION("a cancellation") {
    DueTimer due([](DueTimer& its) { its.timer->Cancel(); });
    due.loop.run();
    CHECK(due.called.empty());
  }
  SECTION("the timer's destruction") {
    DueTimer due([](DueTimer& its) { its.timer.reset(); });
    due.loop.run();
    CHECK(due.called.empty());
  }
  SECTION("another function") {
    DueTimer due([](DueTimer& its) { its.timer->After(0s, [&its] { its.called += "newer "; }); });
    due.loop.run();
    CHECK(due.called == "newer ");
  }
}

TEST_CASE("a function may set its timer again, cancel it or destroy it") {
  boost::asio::io_context loop;
  auto timer = std::make_unique<Timer>(loop);
  int calls = 0;
  const Timer::Work again = [&] {
    if (++calls < 3) timer->After(0s, again);
  };
  SECTION("set again") {
    timer->After(0s, again);
    loop.run();
    CHECK(calls == 3);
  }
  SECTION("cancelled") {
    timer->After(0s, [&, kept = std::make_shared<int>(1)] {
      timer->Cancel();
      calls += *kept;
    });
    loop.run();
    CHECK(calls == 1);
  }
  SECTION("destroyed") {
    timer->After(0s, [&, kept = std::make_shared<int>(1)] {
      timer.reset();
      calls += *kept;
    });
    loop.run();
    CHECK(calls == 1);
  }
}

TEST_CASE("a timer whose function throws can be set again") {
  boost::asio::io_context loop;
  Timer timer(loop);
  int calls = 0;
  timer.After(0s, [] { throw std::runtime_error("the function's own"); });
  CHECK_THROWS_AS(loop.run(), std::runtime_error);
  timer.After(0s, [&] { ++calls; });
  loop.restart();
  loop.run();
  CHECK(calls == 1);
}

TEST_CASE("a timer lets go of its function when the function is called, cancelled or replaced, or the timer ends") {
  boost::asio::io_context loop;
  auto timer = std::make_unique<Timer>(loop);
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  timer->After(0s, [held = std::move(held)] { ++*held; });
  SECTION("called") {
    loop.run();
  }
  SECTION("cancelled") {
    timer->Cancel();
  }
  SECTION("replaced") {
    timer->After(1h, [] {});
  }
  SECTION("ended") {
    timer.reset();
  }
  CHECK(watched.expired());
}

}  // namespace
}  // namespace stepwatch::watch
