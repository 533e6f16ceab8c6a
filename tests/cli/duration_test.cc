#include "controller/cli/duration.h"

#include <cmath>

#include "tests/catch.h"

namespace stepwatch::cli {
namespace {

TEST_CASE("a span of time is a number and one unit") {
  CHECK(ParseTimespan("45s") == 45);
  CHECK(ParseTimespan("90m") == 5400);
  CHECK(ParseTimespan("2h") == 7200);
  CHECK(ParseTimespan("30d") == 2592000);
  CHECK(ParseTimespan("2w") == 1209600);
  for (const char* text : {"", "h", "2", "2hh", "-1h", "1.5h", "100001d", "2 h"}) CHECK_FALSE(ParseTimespan(text));
}

TEST_CASE("a length of time has two units at most") {
  CHECK(DurationText(-3) == "0 s");
  CHECK(DurationText(59.9) == "59 s");
  CHECK(DurationText(65) == "1 m 05 s");
  CHECK(DurationText(3725) == "1 h 02 m");
  CHECK(DurationText(90000) == "1 d 01 h");
  CHECK(DurationText(NAN) == "0 s");
  CHECK(DurationText(INFINITY) == "11574074 d 01 h");
}

TEST_CASE("short times have the digits that tell them apart") {
  CHECK(ShortDurationText(0.00035) == "350 us");
  CHECK(ShortDurationText(0.35) == "350.0 ms");
  CHECK(ShortDurationText(2.346) == "2.35 s");
  CHECK(ShortDurationText(65) == "1 m 05 s");
}

}  // namespace
}  // namespace stepwatch::cli
