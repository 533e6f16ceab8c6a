#include "controller/cli/text/time_text.h"

#include <cmath>

#include "tests/catch.h"

namespace stepwatch::cli {
namespace {

TEST_CASE("a span of time is a number and one unit") {
  CHECK(ParseDuration("45s") == 45);
  CHECK(ParseDuration("90m") == 5400);
  CHECK(ParseDuration("2h") == 7200);
  CHECK(ParseDuration("30d") == 2592000);
  CHECK(ParseDuration("2w") == 1209600);
  for (const char* text : {"", "h", "2", "2hh", "-1h", "1.5h", "100001d", "2 h"}) CHECK_FALSE(ParseDuration(text));
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

TEST_CASE("short times have the digits that distinguish them") {
  CHECK(ShortDurationText(0.00035) == "350 us");
  CHECK(ShortDurationText(0.35) == "350.0 ms");
  CHECK(ShortDurationText(2.346) == "2.35 s");
  CHECK(ShortDurationText(65) == "1 m 05 s");
}

TEST_CASE("times of a history are read, and nothing else") {
  CHECK(ParseUtc("2026-01-01T00:00:00.250Z") == 1767225600.25);
  CHECK(ParseUtc("2026-01-01T00:00:00Z") == 1767225600);
  CHECK_FALSE(ParseUtc("yesterday"));
  CHECK_FALSE(ParseUtc(""));
}

TEST_CASE("a missing time is empty") {
  CHECK(LocalTimeText(0).empty());
  CHECK(LocalTimeText(1e300).empty());
  CHECK(LocalTimeText(1e9).size() == 19);
}

TEST_CASE("a step time is a number and us, ms or s, at most an hour") {
  using std::chrono::microseconds;
  CHECK(ParseStepTime("500us") == microseconds(500));
  CHECK(ParseStepTime("10ms") == microseconds(10000));
  CHECK(ParseStepTime("0.25") == microseconds(250));
  CHECK(ParseStepTime("2s") == microseconds(2000000));
  for (const char* text : {"", "ms", "-1s", "1 ms", "1h", "3601s", "nan"}) CHECK_FALSE(ParseStepTime(text));
}

}  // namespace
}  // namespace stepwatch::cli
