#include "src/base/io_executor.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::base {
namespace {

using Clock = IoThread::Clock;
using namespace std::chrono_literals;

// Work that hangs until it is let go.
struct Hang {
  std::promise<void> begun;
  std::promise<void> go_on;
  std::promise<void> over;

  static std::shared_ptr<Hang> In(IoThread* io) {
    auto hang = std::make_shared<Hang>();
    REQUIRE(io->Post([hang] {
      hang->begun.set_value();
      hang->go_on.get_future().wait();
      hang->over.set_value();
    }));
    hang->begun.get_future().wait();
    return hang;
  }
};

TEST_CASE("work runs in the order in which it was posted, all of it before Stop returns") {
  IoThread io;
  std::vector<int> done;
  for (int i = 0; i < 100; ++i) REQUIRE(io.Post([&done, i] { done.push_back(i); }));
  REQUIRE(io.Stop(Clock::now() + 10s));
  REQUIRE(done.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(done[static_cast<size_t>(i)] == i);
}

TEST_CASE("an exception ends the work that throws it and nothing else") {
  IoThread io;
  bool ran = false;
  REQUIRE(io.Post([] { throw std::runtime_error("a bug"); }));
  REQUIRE(io.Post([&ran] { ran = true; }));
  REQUIRE(io.Stop(Clock::now() + 10s));
  CHECK(ran);
}

TEST_CASE("a stopped executor takes no work, and may be stopped without having had any") {
  IoThread io;
  CHECK(io.Stop(Clock::now()));
  CHECK_FALSE(io.Post([] {}));
}

TEST_CASE("a call that hangs does not hold Stop beyond its deadline, and what waits behind it is never run") {
  std::atomic<bool> ran{false};
  auto kept = std::make_shared<int>(1);
  std::shared_ptr<Hang> hang;
  {
    IoThread io;
    hang = Hang::In(&io);
    REQUIRE(io.Post([&ran, kept] { ran = true; }));
    CHECK(kept.use_count() == 2);
    CHECK_FALSE(io.Stop(Clock::now() + 1ms));
    CHECK(kept.use_count() == 1);  // discarded
  }
  hang->go_on.set_value();
  hang->over.get_future().wait();
  CHECK_FALSE(ran);
}

TEST_CASE("behind a call that hangs a bounded amount of work waits") {
  IoThread io;
  const std::shared_ptr<Hang> hang = Hang::In(&io);
  for (size_t i = 0; i < IoThread::kQueueMax; ++i) REQUIRE(io.Post([] {}));
  CHECK_FALSE(io.Post([] {}));
  hang->go_on.set_value();
  CHECK(io.Stop(Clock::now() + 10s));
}

}  // namespace
}  // namespace stepwatch::base
