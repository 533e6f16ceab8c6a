#include "controller/control_socket/event_ring.h"

#include "tests/catch.h"

namespace stepwatch::control_socket {
namespace {

TEST_CASE("events are numbered from 1, and requested by the last one that is known") {
  EventRing ring;
  CHECK(ring.After(0, 10).events.empty());
  Event event;
  for (int step = 0; step < 5; ++step) {
    event.step = step;
    ring.Add(event);
  }
  const EventPage page = ring.After(2, 2);
  REQUIRE(page.events.size() == 2);
  CHECK(page.events[0].id == 3);
  CHECK(page.events[0].event.step == 2);
  CHECK(page.events[1].id == 4);
  CHECK(page.newest == 5);
  CHECK(ring.After(5, 10).events.empty());
  CHECK(ring.After(99, 10).events.empty());
}

TEST_CASE("the ring keeps the last thousand") {
  EventRing ring;
  for (size_t i = 0; i < EventRing::kEventsMax + 7; ++i) ring.Add({});
  const EventPage page = ring.After(0, 5000);
  CHECK(page.events.size() == EventRing::kEventsMax);
  CHECK(page.events.front().id == 8);
}

}  // namespace
}  // namespace stepwatch::control_socket
