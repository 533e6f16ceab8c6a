#include "src/logs/line_time.h"

#include <string>

#include "tests/catch.h"

namespace stepwatch::logs {
namespace {

constexpr double kJanuary = 1705314615;  // 2024-01-15T10:30:15Z

std::optional<double> TimeIn(std::string_view text, const TimePolicy& policy = {kJanuary, 0}) {
  const auto time = TakeTime(&text, policy);
  return time ? time->t : std::nullopt;
}

TEST_CASE("the usual forms of a time are read") {
  for (const char* text : {"2024-01-15 10:30:15", "2024-01-15T10:30:15Z", "2024/01/15 10:30:15", "01/15/2024 10:30:15",
                           "2024-01-15T18:30:15+08:00", "2024-01-15T18:30:15+0800", "Jan 15 10:30:15",
                           "Mon Jan 15 10:30:15 2024", "2024-01-15 10:30:15 UTC"}) {
    INFO(text);
    CHECK(TimeIn(text) == kJanuary);
  }
  CHECK(TimeIn("2024-01-15 10:30:15,250").value_or(0) == Approx(kJanuary + 0.25).margin(1e-4));
  CHECK(TimeIn("2024-01-15T10:30:15.123456789Z").value_or(0) == Approx(kJanuary + 0.123456789).margin(1e-4));
}

TEST_CASE("a zone in the line wins over the one of the options") {
  const TimePolicy china{kJanuary, 8 * 3600};
  CHECK(TimeIn("2024-01-15 18:30:15", china) == kJanuary);
  CHECK(TimeIn("2024-01-15 10:30:15Z", china) == kJanuary);
}

TEST_CASE("a date without a year is in the year before if it would lie in the future") {
  CHECK(TimeIn("Dec 31 23:59:59") == 1704067199.0);  // 2023
  CHECK(TimeIn("Jan 16 10:00:00") == 1705399200.0);  // less than a day ahead
  CHECK_FALSE(TimeIn("Jan 15 10:30:15", {}));        // when it was read is unknown
  std::string_view c10 = "1118 20:32:23.955028747 x";
  const auto time = TakeMonthDayTime(&c10, {1763500000, 0});
  REQUIRE(time);
  CHECK(time->t.value_or(0) == Approx(1763497943.955).margin(1e-2));
  CHECK(c10 == " x");
  std::string_view unpadded = "118 20:32:23.9 x";
  REQUIRE(TakeMonthDayTime(&unpadded, {kJanuary + 864000, 0}));
}

TEST_CASE("a time of day without a date is taken, and is no time") {
  std::string_view text = "10:30:15 rest";
  const auto time = TakeTime(&text, {});
  REQUIRE(time);
  CHECK_FALSE(time->t);
  CHECK(text == " rest");
}

TEST_CASE("texts that only resemble a time are left alone") {
  for (std::string_view text : {"2024-13-15 10:30:15", "2024-01-15", "12345", "1.2.3.4 10:30:15", "May be 10:30:15",
                                "2024-01-15 25:30:15", ""}) {
    INFO(text);
    std::string_view rest = text;
    CHECK_FALSE(TakeTime(&rest, {kJanuary, 0}));
    CHECK(rest == text);
  }
}

}  // namespace
}  // namespace stepwatch::logs
