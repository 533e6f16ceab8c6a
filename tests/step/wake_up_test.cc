// Waits of the step thread and the drain while somebody sets the wall clock. Its own executable: it replaces
// clock_gettime.
#include "src/step/wake_up.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>

#include "src/step/step_gate.h"
#include "tests/catch.h"

namespace {

// The wall clock is ahead of the one that the kernel sleeps by: it was set between a look at it and a sleep.
std::atomic<time_t> wall_clock_ahead{0};

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += wall_clock_ahead;
  return static_cast<int>(result);
}

namespace stepwatch::step {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST_CASE("a wake-up waits for its whole time, wherever the wall clock goes") {
  WakeUp wake_up;
  wall_clock_ahead = -3600;
  const auto start = steady_clock::now();
  wake_up.Wait(milliseconds(20));
  CHECK(steady_clock::now() - start >= milliseconds(20));
  wall_clock_ahead = 3600;
  wake_up.Wait(milliseconds(20));  // would last an hour
  wall_clock_ahead = 0;
}

TEST_CASE("the gate of a step waits for its whole patience, wherever the wall clock goes") {
  StepGate gate(0, milliseconds(20));
  gate.HoldAt(1);
  wall_clock_ahead = -3600;
  const auto start = steady_clock::now();
  gate.Arrive(1);
  CHECK(steady_clock::now() - start >= milliseconds(20));
  CHECK(gate.timeouts() == 1);
  wall_clock_ahead = 0;
}

TEST_CASE("a wait ends with a post, and consumes all posts") {
  WakeUp wake_up;
  wake_up.Post();
  wake_up.Post();
  wake_up.Wait(std::chrono::hours(1));
  const auto start = steady_clock::now();
  wake_up.Wait(milliseconds(5));
  CHECK(steady_clock::now() - start >= milliseconds(5));
}

}  // namespace
}  // namespace stepwatch::step
