// Times as in the names of run directories: "Dec03_21-34-40", without a year.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace stepwatch::base {

// The time at the beginning of `text`: month (from 0), day, hour, minute, second; no year. nullopt if `text` does not
// begin with a time that exists in some year; English months in any locale.
std::optional<std::tm> ParseRunTime(std::string_view text);

// The same as a number that orders times within a year, 29 February included.
std::optional<long> TimeOfYear(std::string_view text);

// Both ends included. A range that ends before it begins wraps around New Year.
bool InTimeRange(long time, long from, long to);

// "Dec03_21-34-40", local time, English months in any locale.
std::string RunTimeText(std::time_t now);

}  // namespace stepwatch::base
