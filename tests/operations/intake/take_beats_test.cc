#include "operations/intake/take_beats.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

std::string BeatAt(double t) {
  return R"({"t":)" + std::to_string(t) + R"(,"run":"a","rank":0,"beat":{"step":1}})" + "\n";
}

TEST_CASE("lines that cannot be used are reported by number, and the others are taken") {
  const TakenBeats taken = TakeBeats("\n" + BeatAt(10) + "garbage\r\n\n" + BeatAt(11), std::nullopt, 12);
  CHECK(taken.lines.size() == 2);
  CHECK(taken.refused == 1);
  REQUIRE(taken.refusals.size() == 1);
  CHECK(taken.refusals[0].first == 3);
}

TEST_CASE("of a body that is wrong from end to end a bounded part is reported, and all is counted") {
  std::string body;
  for (int i = 0; i < 1000; ++i) body += "x\n";
  const TakenBeats taken = TakeBeats(body, std::nullopt, 0);
  CHECK(taken.refused == 1000);
  CHECK(taken.refusals.size() == kRefusalsMax);
}

TEST_CASE("another program cannot set the clock of an observer") {
  const std::string step = R"({"t":1,"run":"a","event":{"kind":"clock_step","seconds":3600}})";
  CHECK(TakeBeats(step, std::nullopt, 1).refused == 1);
}

TEST_CASE("times come over to this clock") {
  SECTION("by when they were sent, in the sender's clock") {
    const TakenBeats taken = TakeBeats(BeatAt(100) + BeatAt(160), 170, 5000);
    CHECK(taken.lines[0].t == Approx(4930));
    CHECK(taken.lines[1].t == Approx(4990));
  }
  SECTION("by the newest of them, if that is far from now") {
    const TakenBeats taken = TakeBeats(BeatAt(100) + BeatAt(160), std::nullopt, 5000);
    CHECK(taken.lines[0].t == Approx(4940));
    CHECK(taken.lines[1].t == Approx(5000));
  }
  SECTION("and stay as they are if it is near, but for what would be later than now") {
    const TakenBeats taken = TakeBeats(BeatAt(98) + BeatAt(102), std::nullopt, 100);
    CHECK(taken.lines[0].t == Approx(98));
    CHECK(taken.lines[1].t == Approx(100));
  }
}

}  // namespace
}  // namespace stepwatch::operations
