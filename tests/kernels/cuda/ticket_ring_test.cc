// Slots pass from the trainer to the device to the reader and back, and no two tickets ever share one.

#include "kernels/cuda/ticket_ring.h"

#include <thread>

#include "tests/catch.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::cuda::test {
namespace {

Partial Marked(uint64_t ticket) {
  Partial partial{};
  partial.zeros = static_cast<int64_t>(ticket);
  return partial;
}

TEST_CASE("a reservation gets what is free, in a row") {
  std::vector<ResultSlot> slots(4);
  TicketRing ring(slots.data(), 4);
  CHECK(ring.Reserve(3).count == 3);
  const TicketRing::Range rest = ring.Reserve(3);
  CHECK(rest.first == 3);
  CHECK(rest.count == 1);
  CHECK(ring.Reserve(1).count == 0);
}

TEST_CASE("a ticket is taken once, and only when it is written") {
  std::vector<ResultSlot> slots(2);
  TicketRing ring(slots.data(), 2, 100);
  REQUIRE(ring.Reserve(1).first == 100);
  Partial totals;
  CHECK_FALSE(ring.Take(100, &totals));
  CHECK_FALSE(ring.AllWritten({100, 1}));
  ring.Answer(100, Marked(100));
  CHECK(ring.AllWritten({100, 1}));
  REQUIRE(ring.Take(100, &totals));
  CHECK(totals.zeros == 100);
  CHECK_FALSE(ring.Take(100, &totals));
}

TEST_CASE("slots come free out of order, and the oldest that lies holds up the ring") {
  std::vector<ResultSlot> slots(4);
  TicketRing ring(slots.data(), 4);
  ring.Reserve(4);
  for (uint64_t ticket = 0; ticket < 4; ++ticket) ring.Answer(ticket, Marked(ticket));
  Partial totals;
  for (uint64_t ticket : {3, 1, 2}) REQUIRE(ring.Take(ticket, &totals));
  CHECK(ring.Reserve(1).count == 0);
  REQUIRE(ring.Take(0, &totals));
  CHECK(ring.Reserve(9).count == 4);
}

TEST_CASE("discarded slots wait for the device, cancelled ones do not") {
  std::vector<ResultSlot> slots(2);
  TicketRing ring(slots.data(), 2);
  ring.Reserve(2);
  ring.Discard(0);
  ring.Cancel(1);
  CHECK(ring.Reserve(1).count == 0);
  ring.Answer(0, Marked(0));
  CHECK(ring.Reserve(2).count == 2);
  Partial totals;
  CHECK_FALSE(ring.Take(0, &totals));
  CHECK_FALSE(ring.Take(1, &totals));
}

TEST_CASE("three threads reserve while one takes, and every ticket carries its own result", "[slow]") {
  std::vector<ResultSlot> slots(16);
  TicketRing ring(slots.data(), 16);
  constexpr uint64_t kTickets = testing::Rounds(30000);
  std::atomic<uint64_t> reserved{0};
  const auto produce = [&] {
    while (reserved.load() < kTickets) {
      const TicketRing::Range range = ring.Reserve(3);
      for (size_t i = 0; i < range.count; ++i) ring.Answer(range.first + i, Marked(range.first + i));
      reserved += range.count;
      if (range.count == 0) std::this_thread::yield();
    }
  };
  std::vector<std::thread> producers;
  for (int i = 0; i < 3; ++i) producers.emplace_back(produce);
  uint64_t wrong = 0;
  for (uint64_t ticket = 0; ticket < kTickets; ++ticket) {
    Partial totals;
    while (!ring.Take(ticket, &totals)) std::this_thread::yield();
    wrong += totals.zeros == static_cast<int64_t>(ticket) ? 0 : 1;
  }
  for (std::thread& producer : producers) producer.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
