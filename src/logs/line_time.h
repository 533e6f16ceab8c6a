// The time that a line brings itself, in the forms that loggers print.
//
// A zone in the line wins; a time without one is in the zone of the reader's options. A date without year is in the
// year that puts it at most a day after the line was read. A time of day without date is no time.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stepwatch::logs {

struct TimePolicy {
  double observed_t = 0;  // when the line was read, in seconds of the wall clock; 0: unknown, so years are not inferred
  int64_t utc_offset_seconds = 0;
};

struct LineTime {
  std::optional<double> t;  // no value: a time of day, or a date whose year is unknown
};

// A time at the start of `text`; removes it. Nullopt, and removes nothing: there is none. Forms: 2024-01-15
// 10:30:15,123 (also with T, /, a fraction, Z or +08:00), 01/15/2024 10:30:15, Jan  5 10:30:15 (also with the year),
// 10:30:15.
std::optional<LineTime> TakeTime(std::string_view* text, const TimePolicy& policy);

// "1118 20:32:23.955028747" as c10 and glog print it: month and day, the month perhaps as one digit.
std::optional<LineTime> TakeMonthDayTime(std::string_view* text, const TimePolicy& policy);

}  // namespace stepwatch::logs
