#include "src/step/record_ring.h"

#include <atomic>
#include <thread>
#include <variant>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::step {
namespace {

Record Numbered(int64_t number, SiteId producer = 0) {
  Record record;
  record.step = number;
  record.site = producer;
  return record;
}

// Pushes records until one is refused.
size_t FillWithRecords(RecordRing* ring) {
  size_t count = 0;
  while (ring->TryPush(Numbered(static_cast<int64_t>(count)))) ++count;
  return count;
}

TEST_CASE("records come out in the order in which they went in, exactly once") {
  RecordRing ring(100);
  RingEntry entry;
  CHECK(ring.Empty());
  CHECK_FALSE(ring.Pop(&entry));
  for (int64_t i = 0; i < 100; ++i) REQUIRE(ring.TryPush(Numbered(i)));
  CHECK_FALSE(ring.Empty());
  for (int64_t i = 0; i < 100; ++i) {
    REQUIRE(ring.Pop(&entry));
    CHECK(std::get<Record>(entry).step == i);
  }
  CHECK(ring.Empty());
  CHECK_FALSE(ring.Pop(&entry));
}

TEST_CASE("markers keep their place between records") {
  RecordRing ring(64);
  ring.Push(PlanBegin{7});
  REQUIRE(ring.TryPush(Numbered(7)));
  REQUIRE(ring.TryPush(FrameEnd{7, 1}));
  ring.Push(PlanEnd{EndReason::kStopped, 7, 1});
  RingEntry entry;
  REQUIRE(ring.Pop(&entry));
  CHECK(std::get<PlanBegin>(entry).first_step == 7);
  REQUIRE(ring.Pop(&entry));
  CHECK(std::get<Record>(entry).step == 7);
  REQUIRE(ring.Pop(&entry));
  CHECK(std::get<FrameEnd>(entry).produced == 1);
  REQUIRE(ring.Pop(&entry));
  CHECK(std::get<PlanEnd>(entry).reason == EndReason::kStopped);
}

TEST_CASE("records that keep places free for others leave as many") {
  RecordRing ring(64);
  while (ring.TryPush(Numbered(0), 20)) {
  }
  size_t others = 0;
  while (ring.TryPush(Numbered(1))) ++others;
  CHECK(others == 20);
}

TEST_CASE("as many records as were asked for fit beside the begin of the plan and the end of a frame") {
  for (size_t wanted : {size_t{1}, size_t{64}, size_t{96}, size_t{224}, size_t{992}, size_t{1000}, size_t{2016}}) {
    INFO("asked for " << wanted);
    RecordRing ring(wanted);
    ring.Push(PlanBegin{0});
    for (size_t i = 0; i < wanted / 2; ++i) REQUIRE(ring.TryPush(Numbered(0)));
    REQUIRE(ring.TryPush(FrameEnd{0, wanted / 2}));
    for (size_t i = wanted / 2; i < wanted; ++i) REQUIRE(ring.TryPush(Numbered(1)));
  }
}

TEST_CASE("a ring that is full of records still takes frame ends, and when those fill it, the end of the plan") {
  RecordRing ring(64);
  ring.Push(PlanBegin{0});
  const size_t records = FillWithRecords(&ring);
  CHECK(records >= 64);
  CHECK_FALSE(ring.TryPush(Numbered(-1)));
  size_t frame_ends = 0;
  while (ring.TryPush(FrameEnd{static_cast<int64_t>(frame_ends), 0})) ++frame_ends;
  CHECK(frame_ends >= 16);
  ring.Push(PlanEnd{EndReason::kTimes, 5, 5});

  RingEntry entry;
  REQUIRE(ring.Pop(&entry));
  CHECK(std::holds_alternative<PlanBegin>(entry));
  for (size_t i = 0; i < records; ++i) {
    REQUIRE(ring.Pop(&entry));
    REQUIRE(std::get<Record>(entry).step == static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < frame_ends; ++i) {
    REQUIRE(ring.Pop(&entry));
    REQUIRE(std::get<FrameEnd>(entry).step == static_cast<int64_t>(i));
  }
  REQUIRE(ring.Pop(&entry));
  CHECK(std::get<PlanEnd>(entry).reason == EndReason::kTimes);
  CHECK(ring.Empty());
}

TEST_CASE("a place becomes free with each entry that is popped, round after round") {
  RecordRing ring(64);
  const size_t room = FillWithRecords(&ring);
  RingEntry entry;
  int64_t next_in = static_cast<int64_t>(room), next_out = 0;
  for (size_t i = 0; i < 10 * ring.capacity(); ++i) {
    REQUIRE_FALSE(ring.TryPush(Numbered(-1)));
    REQUIRE(ring.Pop(&entry));
    REQUIRE(std::get<Record>(entry).step == next_out++);
    REQUIRE(ring.TryPush(Numbered(next_in++)));
  }
  size_t left = 0;
  while (ring.Pop(&entry)) {
    REQUIRE(std::get<Record>(entry).step == next_out++);
    ++left;
  }
  CHECK(left == room);
}

TEST_CASE("several producers and one consumer: nothing is lost, doubled or out of its producer's order") {
  constexpr SiteId kProducers = 4;
  constexpr int64_t kEach = 50000;
  RecordRing ring(256);
  std::atomic<int64_t> refused{0};
  std::vector<std::thread> producers;
  for (SiteId who = 0; who < kProducers; ++who)
    producers.emplace_back([&ring, &refused, who] {
      for (int64_t i = 0; i < kEach; ++i)
        while (!ring.TryPush(Numbered(i, who))) {
          refused.fetch_add(1, std::memory_order_relaxed);
          std::this_thread::yield();
        }
    });
  std::vector<int64_t> next(kProducers, 0);
  RingEntry entry;
  for (int64_t received = 0; received < kProducers * kEach;) {
    if (!ring.Pop(&entry)) {
      std::this_thread::yield();
      continue;
    }
    const Record& record = std::get<Record>(entry);
    REQUIRE(record.site < kProducers);
    REQUIRE(record.step == next[record.site]++);
    ++received;
  }
  for (std::thread& producer : producers) producer.join();
  CHECK(ring.Empty());
  INFO("found the ring full: " << refused.load());
  for (int64_t count : next) CHECK(count == kEach);
}

TEST_CASE("producers that never wait: what was taken and what was refused add up") {
  constexpr int kProducers = 3;
  constexpr int64_t kEach = 30000;
  RecordRing ring(64);
  std::atomic<int64_t> taken{0};
  std::atomic<int> running{kProducers};
  std::vector<std::thread> producers;
  for (int who = 0; who < kProducers; ++who)
    producers.emplace_back([&] {
      for (int64_t i = 0; i < kEach; ++i)
        if (ring.TryPush(Numbered(i))) taken.fetch_add(1, std::memory_order_relaxed);
      running.fetch_sub(1);
    });
  int64_t received = 0;
  RingEntry entry;
  while (running.load() > 0 || !ring.Empty()) received += ring.Pop(&entry) ? 1 : 0;
  for (std::thread& producer : producers) producer.join();
  while (ring.Pop(&entry)) ++received;
  CHECK(received == taken.load());
}

}  // namespace
}  // namespace stepwatch::step
