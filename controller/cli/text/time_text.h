// Durations and points in time as text.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stepwatch::cli {

// Seconds in "30d", "12h", "90m", "45s", "2w"; no value for another text.
std::optional<int64_t> ParseDuration(std::string_view text);

// "10ms", "500us", "2s", at most an hour; a plain number is in milliseconds. No value for another text.
std::optional<std::chrono::microseconds> ParseStepTime(const std::string& text);

// "59 s", "1 m 05 s", "1 h 02 m", "3 d 04 h".
std::string DurationText(double seconds);

// Three digits below a minute: "350 us", "350.0 ms", "2.35 s"; DurationText from there on.
std::string ShortDurationText(double seconds);
// Likewise, in seconds however long: "75.00 s".
std::string StepTimeText(double seconds);

// Now, in seconds since 1970.
double WallSeconds();
// Local time: "2026-11-23 19:20:11", without the seconds for kMinute; empty for a time that is not known.
enum class TimeDigits : uint8_t { kSecond, kMinute };
std::string LocalTimeText(double t, TimeDigits digits = TimeDigits::kSecond);
// Seconds since 1970 of "2026-11-22T17:34:39.123Z"; no value for another text.
std::optional<double> ParseUtc(const std::string& text);

}  // namespace stepwatch::cli
