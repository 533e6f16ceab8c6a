#include "src/base/run_time.h"

#include <array>
#include <cstdio>

namespace stepwatch::base {
namespace {

constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<int, 12> kDays = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

}  // namespace

std::optional<std::tm> ParseRunTime(std::string_view text) {
  char month[4] = {};
  int day = 0, hour = 0, minute = 0, second = 0;
  const std::string start(text.substr(0, 14));
  if (std::sscanf(start.c_str(), "%3[A-Za-z]%2d_%2d-%2d-%2d", month, &day, &hour, &minute, &second) != 5)
    return std::nullopt;
  for (size_t i = 0; i < kMonths.size(); ++i) {
    if (std::string_view(kMonths[i]) != month) continue;
    const bool exists = day >= 1 && day <= kDays[i] && hour >= 0 && hour < 24 && minute >= 0 && minute < 60 &&
                        second >= 0 && second <= 60;
    if (!exists) return std::nullopt;
    std::tm parts{};
    parts.tm_mon = static_cast<int>(i);
    parts.tm_mday = day;
    parts.tm_hour = hour;
    parts.tm_min = minute;
    parts.tm_sec = second;
    return parts;
  }
  return std::nullopt;
}

std::optional<long> TimeOfYear(std::string_view text) {
  const std::optional<std::tm> parts = ParseRunTime(text);
  if (!parts) return std::nullopt;
  const long days = static_cast<long>(parts->tm_mon) * 32 + parts->tm_mday;
  return ((days * 24 + parts->tm_hour) * 60 + parts->tm_min) * 61 + parts->tm_sec;
}

bool InTimeRange(long time, long from, long to) {
  return from <= to ? from <= time && time <= to : time >= from || time <= to;
}

std::string RunTimeText(std::time_t now) {
  std::tm local{};
  localtime_r(&now, &local);
  char text[64];
  std::snprintf(text, sizeof text, "%s%02d_%02d-%02d-%02d", kMonths[static_cast<size_t>(local.tm_mon)], local.tm_mday,
                local.tm_hour, local.tm_min, local.tm_sec);
  return text;
}

}  // namespace stepwatch::base
