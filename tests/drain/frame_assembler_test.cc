#include "src/drain/frame_assembler.h"

#include <vector>

#include "tests/catch.h"

namespace stepwatch::drain {
namespace {

Record OfStep(int64_t step, SiteId site = 0) {
  Record record;
  record.step = step;
  record.site = site;
  return record;
}

// Feeds entries and keeps the frames that come out.
struct Assembly {
  FrameAssembler assembler;
  std::vector<AssembledFrame> frames;

  void operator()(const step::RingEntry& entry) {
    if (auto frame = assembler.Add(entry)) frames.push_back(*std::move(frame));
  }
  size_t records() const {
    size_t count = 0;
    for (const AssembledFrame& frame : frames) count += frame.records.size();
    return count;
  }
};

TEST_CASE("a frame holds the records between two frame ends, in their order") {
  Assembly add;
  add(step::PlanBegin{3});
  REQUIRE(add.assembler.begin());
  CHECK(add.assembler.begin()->first_step == 3);
  add(OfStep(3, 1));
  add(OfStep(3, 0));
  CHECK(add.frames.empty());
  add(step::FrameEnd{3, 2});
  add(OfStep(4, 7));
  add(step::FrameEnd{4, 1});
  add(step::PlanEnd{step::EndReason::kTimes, 4, 2});
  REQUIRE(add.frames.size() == 2);
  CHECK(add.frames[0].step == 3);
  REQUIRE(add.frames[0].records.size() == 2);
  CHECK(add.frames[0].records[0].site == 1);
  CHECK(add.frames[0].records[1].site == 0);
  CHECK(add.frames[1].step == 4);
  REQUIRE(add.assembler.end());
  CHECK(add.assembler.end()->collected == 2);
  CHECK(add.assembler.late() == 0);
}

TEST_CASE("columns of heat maps stand in the frame of their step, with records or alone") {
  Assembly add;
  add(step::PlanBegin{0});
  add(OfStep(0));
  CHECK_FALSE(add.assembler.Add(step::HeatmapStep{0, {HeatmapColumn{}, HeatmapColumn{}}}));
  add(step::FrameEnd{0, 1});
  CHECK_FALSE(add.assembler.Add(step::HeatmapStep{2, {HeatmapColumn{}}}));
  add(step::FrameEnd{2, 0});
  add(OfStep(3));
  const auto closed = add.assembler.Add(step::HeatmapStep{4, {HeatmapColumn{}}});  // the end of step 3 is lost
  REQUIRE(closed);
  CHECK((closed->step == 3 && closed->columns.empty()));
  add(step::FrameEnd{4, 0});
  REQUIRE(add.frames.size() == 3);
  CHECK((add.frames[0].step == 0 && add.frames[0].records.size() == 1 && add.frames[0].columns.size() == 2));
  CHECK((add.frames[1].step == 2 && add.frames[1].records.empty() && add.frames[1].columns.size() == 1));
  CHECK((add.frames[2].step == 4 && add.frames[2].columns.size() == 1));
  CHECK(add.assembler.missing() == 0);
}

TEST_CASE("a step without records makes no frame") {
  Assembly add;
  add(step::PlanBegin{0});
  add(step::FrameEnd{0, 0});
  add(step::FrameEnd{1, 0});
  add(step::PlanEnd{});
  CHECK(add.frames.empty());
}

TEST_CASE("a frame whose end was lost is closed by the first entry of a later step, and by the end of the plan") {
  const std::pair<step::RingEntry, int64_t> closing[] = {{OfStep(6), 6},
                                                         {step::FrameEnd{6, 0}, -1},
                                                         {step::GraphStep{6, {0, 1, 0, 1}}, 6},
                                                         {step::PlanEnd{step::EndReason::kClosed, 5, 1}, -1}};
  for (const auto& [entry, open] : closing) {
    Assembly add;
    add(OfStep(5));
    add(OfStep(5));
    add(entry);
    REQUIRE(add.frames.size() == 1);
    CHECK(add.frames[0].step == 5);
    CHECK(add.frames[0].records.size() == 2);
    if (open >= 0) CHECK(add.assembler.open().step == open);
  }
}

TEST_CASE("a record of a closed step is late: counted, and in no frame") {
  Assembly add;
  add(OfStep(1));
  add(step::FrameEnd{1, 2});
  add(OfStep(1));
  CHECK(add.assembler.late() == 1);
  add(OfStep(2));
  add(OfStep(1));
  CHECK(add.assembler.late() == 2);
  add(step::FrameEnd{2, 1});
  add(step::PlanEnd{});
  CHECK(add.records() == 2);
}

TEST_CASE("a record of an earlier step than the open frame is late, though there was no frame end") {
  Assembly add;
  add(OfStep(4));
  add(OfStep(3));
  CHECK(add.assembler.late() == 1);
  add(step::PlanEnd{});
  CHECK(add.records() == 1);
}

TEST_CASE("records behind the end of the plan are late") {
  Assembly add;
  add(OfStep(1));
  add(step::PlanEnd{});
  add(OfStep(1));
  add(OfStep(2));
  CHECK(add.assembler.late() == 2);
  CHECK(add.records() == 1);
}

TEST_CASE("a frame knows which of its records are still without their numbers") {
  Assembly add;
  Record pending = OfStep(1, 9);
  pending.flags = Record::kPending;
  add(OfStep(1));
  add(pending);
  add(OfStep(1));
  add(pending);
  CHECK(add.assembler.open().pending == std::vector<uint32_t>{1, 3});
  add(step::FrameEnd{1, 4});
  add(OfStep(2));
  add(step::FrameEnd{2, 1});
  REQUIRE(add.frames.size() == 2);
  CHECK(add.frames[0].pending == std::vector<uint32_t>{1, 3});
  CHECK(add.frames[1].pending.empty());
}

TEST_CASE("records that a step announced and that never came are counted as missing") {
  Assembly add;
  add(OfStep(1));
  add(step::FrameEnd{1, 3});
  CHECK(add.assembler.missing() == 2);
  add(step::FrameEnd{2, 4});
  CHECK(add.assembler.missing() == 6);
  add(OfStep(3));
  add(OfStep(4));  // the end of step 3 was lost, and with it its number
  add(step::FrameEnd{4, 1});
  CHECK(add.assembler.missing() == 6);
}

TEST_CASE("steps may begin below zero and be far apart") {
  Assembly add;
  add(OfStep(-5));
  add(step::FrameEnd{-5, 1});
  add(OfStep(INT64_MAX));
  add(step::PlanEnd{});
  CHECK(add.frames.size() == 2);
  CHECK(add.assembler.late() == 0);
}

TEST_CASE("a step in which graphs may have run makes a frame, though no record is known yet") {
  Assembly add;
  add(step::PlanBegin{3});
  add(step::GraphStep{3, {0, 17, 0, 4}});
  CHECK_FALSE(add.assembler.open().empty());
  add(step::FrameEnd{3, 0});
  add(OfStep(4));
  add(step::GraphStep{4, {0, 18, 0, 4}});
  add(step::GraphStep{4, {1, 5, 2, 9}});
  add(step::FrameEnd{4, 1});
  add(step::GraphStep{4, {0, 19, 0, 4}});  // of a frame that is closed
  add(step::PlanEnd{step::EndReason::kTimes, 4, 2});
  add(step::GraphStep{5, {0, 20, 0, 4}});
  REQUIRE(add.frames.size() == 2);
  CHECK(add.frames[0].step == 3);
  CHECK(add.frames[0].records.empty());
  REQUIRE(add.frames[0].graph_steps.size() == 1);
  CHECK(add.frames[0].graph_steps[0].on.number == 17);
  REQUIRE(add.frames[1].graph_steps.size() == 2);
  CHECK(add.frames[1].graph_steps[1].on.device == 1);
  CHECK(add.frames[1].graph_steps[1].on.end == 9);
  CHECK(add.assembler.late() == 0);
  CHECK(add.assembler.missing() == 0);
}

}  // namespace
}  // namespace stepwatch::drain
