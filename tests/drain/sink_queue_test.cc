#include "src/drain/sink_queue.h"

#include "src/sinks/impossible_frame.h"
#include "tests/drain/run_fixture.h"

namespace stepwatch::drain {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<const AssembledFrame> FrameOf(int64_t step, size_t records) {
  auto frame = std::make_shared<AssembledFrame>();
  frame->step = step;
  frame->records.assign(records, Record{.step = step, .plan_id = 1});
  return frame;
}

// The queue with a clock that only the test moves.
struct Queue {
  std::shared_ptr<ScriptedSink> sink = std::make_shared<ScriptedSink>();
  SinkQueue queue;
  SteadyTime now = SteadyTime() + std::chrono::hours(1);
  std::shared_ptr<const plan::Plan> plan = MakePlan({1});
  uint64_t written = 0;
  uint64_t given_up = 0;

  explicit Queue(size_t backlog_records = 1000)
      : queue(sink, backlog_records * sizeof(Record),
              {[this](PlanId id, uint64_t more_written, uint64_t more_given_up) {
                 CHECK(id == 1);
                 written += more_written;
                 given_up += more_given_up;
               },
               nullptr}) {}

  void Add(int64_t step, size_t records) { queue.AddFrame(plan, FrameOf(step, records)); }
  void Advance(bool now_or_never = false) { queue.Advance(now, now_or_never); }
};

TEST_CASE("a queue passes frames and plan ends on in their order") {
  Queue each;
  each.Add(1, 2);
  each.Add(2, 3);
  each.queue.AddEnd(each.plan);
  CHECK_FALSE(each.queue.empty());
  each.Advance();
  CHECK(each.queue.empty());
  CHECK(each.written == 5);
  CHECK(each.sink->ended() == std::vector<PlanId>{1});
  CHECK(each.sink->records().back().step == 2);
  CHECK(each.sink->flushes() == 1);
  CHECK_FALSE(each.queue.retry_at());
  each.Advance();
  CHECK(each.sink->flushes() == 1);
}

TEST_CASE("after a failure a queue waits, longer each time, at most a second") {
  Queue each;
  each.sink->SetScript(Refuse);
  each.Add(1, 1);
  milliseconds expected{50};
  for (int i = 0; i < 8; ++i) {
    const int writes = each.sink->writes();
    each.Advance();
    CHECK(each.sink->writes() == writes + 1);
    REQUIRE(each.queue.retry_at());
    CHECK(*each.queue.retry_at() - each.now == expected);
    REQUIRE(each.queue.failure());
    each.now = *each.queue.retry_at() - milliseconds(1);
    each.Advance();
    CHECK(each.sink->writes() == writes + 1);
    each.now += milliseconds(1);
    expected = std::min(expected * 2, milliseconds(1000));
  }
  each.Advance(true);
  each.sink->SetScript({});
  each.Advance(true);  // does not wait
  CHECK(each.written == 1);
  CHECK_FALSE(each.queue.failure());
  CHECK_FALSE(each.queue.retry_at());

  each.sink->SetScript(Refuse);
  each.Add(2, 1);
  each.Advance();
  CHECK(*each.queue.retry_at() - each.now == milliseconds(50));
}

TEST_CASE("a queue beyond its limit discards its oldest frames, and reports to a sink only those that it has seen") {
  Queue each(10);
  each.sink->SetScript(Refuse);
  each.Add(1, 4);
  each.Add(2, 4);
  each.Advance();
  CHECK(each.given_up == 0);
  each.Add(3, 4);
  each.Advance();
  CHECK(each.given_up == 4);
  CHECK(each.sink->discarded() == 1);
  each.Add(4, 4);
  each.Advance();  // still waits: the second frame was never tried
  CHECK(each.given_up == 8);
  CHECK(each.sink->discarded() == 1);
  each.sink->SetScript({});
  each.now += std::chrono::seconds(2);
  each.Advance();
  CHECK(each.written == 8);
  CHECK(each.queue.empty());
}

TEST_CASE("a frame larger than the whole limit is taken by a sink that works, and discarded where one does not") {
  Queue each(3);
  each.Add(1, 100);
  each.Advance();
  CHECK(each.written == 100);
  each.sink->SetScript(Refuse);
  each.Add(2, 100);
  each.Advance();
  CHECK(each.given_up == 100);
  CHECK(each.queue.empty());
}

TEST_CASE("passing the end of a plan on does not pass for a recovery") {
  Queue each(1);
  each.sink->SetScript(Refuse);
  each.Add(1, 2);
  each.queue.AddEnd(each.plan);
  each.Advance();
  CHECK(each.given_up == 2);
  each.now += std::chrono::seconds(2);
  each.Advance();
  CHECK(each.sink->ended().size() == 1);
  CHECK(each.queue.failure());
  each.sink->SetScript({});
  each.Add(2, 1);
  each.Advance();
  CHECK_FALSE(each.queue.failure());
}

TEST_CASE("a sink may miscount, the account may not") {
  Queue each;
  each.sink->SetScript([](const RecordLayout&, const StepFrame&) { return WriteResult{Status(), 0}; });
  each.Add(1, 3);
  each.Advance();
  CHECK(each.written == 3);
  each.sink->SetScript([](const RecordLayout& layout, const StepFrame& left) {
    WriteResult result = Refuse(layout, left);
    result.written = 99;
    return result;
  });
  each.Add(2, 4);
  each.Advance(true);
  each.Advance(true);
  CHECK(each.written == 7);
  each.queue.DiscardAll();
  CHECK(each.given_up == 0);
}

TEST_CASE("giving up counts all that is left and still ends the plans") {
  Queue each;
  each.sink->SetScript([](const RecordLayout& layout, const StepFrame& left) {
    WriteResult result = Refuse(layout, left);
    result.written = 1;
    return result;
  });
  each.Add(1, 4);
  each.Add(2, 4);
  each.queue.AddEnd(each.plan);
  each.Advance();
  CHECK(each.written == 1);
  each.queue.DiscardAll();
  CHECK(each.given_up == 7);
  CHECK(each.sink->ended().size() == 1);
  CHECK(each.queue.empty());
}

TEST_CASE("a flush that fails is a failure of the sink") {
  class NoFlush final : public Sink {
   public:
    WriteResult Write(const RecordLayout&, const StepFrame& frame) override { return {Status(), frame.count}; }
    Status Flush() override { return Status(StatusCode::kUnavailable, "rows may be missing"); }
  };
  uint64_t written = 0;
  SinkQueue queue(std::make_shared<NoFlush>(), 1000,
                  {[&](PlanId, uint64_t more, uint64_t) { written += more; }, nullptr});
  queue.AddFrame(MakePlan({1}), FrameOf(1, 1));
  queue.Advance(SteadyTime(), false);
  CHECK(written == 1);
  REQUIRE(queue.failure());
  CHECK(queue.failure()->message() == "rows may be missing");
}

TEST_CASE("a frame that a sink can never take is discarded at once, and the next one is written") {
  Queue each;
  each.sink->SetScript([](const RecordLayout&, const StepFrame& left) -> WriteResult {
    if (left.step == 1) throw sinks::ImpossibleFrame("thrown on purpose");
    return {Status(), left.count};
  });
  each.Add(1, 3);
  each.Advance();
  CHECK(each.given_up == 3);
  REQUIRE(each.queue.failure());
  CHECK(each.queue.failure()->message() == "a sink cannot write a frame, which is dropped: thrown on purpose");
  each.Add(2, 2);
  each.Advance();
  CHECK(each.written == 2);
  CHECK_FALSE(each.queue.failure());
}

TEST_CASE("sinks share a frame") {
  Queue one, other;
  const auto frame = FrameOf(1, 2);
  one.queue.AddFrame(one.plan, frame);
  other.queue.AddFrame(other.plan, frame);
  CHECK(frame.use_count() == 3);
  one.Advance();
  other.Advance();
  CHECK(frame.use_count() == 1);
}

}  // namespace
}  // namespace stepwatch::drain
