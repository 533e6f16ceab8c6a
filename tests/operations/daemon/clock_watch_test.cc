#include "operations/daemon/clock_watch.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("a clock that passes as time does hides nothing, slewing neither") {
  ClockWatch clock;
  double hidden = clock.Look({1000, 5});
  for (int second = 1; second < 1000; ++second) hidden += clock.Look({1000 + 1.0005 * second, 5.0 + second});
  CHECK(hidden == 0);
}

TEST_CASE("a clock that is set is a step of so much, once") {
  ClockWatch clock;
  (void)clock.Look({1000, 5});
  CHECK(clock.Look({4601, 6}) == Approx(3600));
  CHECK(clock.Look({4602, 7}) == 0);
  CHECK(clock.Look({1003, 8}) == Approx(-3600));
}

TEST_CASE("a machine that slept, and a process that stood still, did not watch") {
  ClockWatch clock;
  (void)clock.Look({1000, 5});
  // Asleep for an hour: the monotonic clock stood still.
  CHECK(clock.Look({4601, 6}) == Approx(3600));
  // Stopped for ten minutes: both went on.
  CHECK(clock.Look({5202, 607}) == Approx(600));
}

}  // namespace
}  // namespace stepwatch::operations
