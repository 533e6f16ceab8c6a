#include "src/logs/line_time.h"

#include <array>
#include <cmath>
#include <cstddef>

#include "src/logs/scan.h"

namespace stepwatch::logs {
namespace {

constexpr int64_t kSecondsPerDay = 86400;

struct Date {
  int64_t year = 0, month = 0, day = 0;
};

bool IsDate(const Date& date) {
  return date.year >= 1970 && date.year <= 9999 && date.month >= 1 && date.month <= 12 && date.day >= 1 &&
         date.day <= 31;
}

// Days since 1970-01-01 of the Gregorian calendar. Years begin in March, so that the leap day is the last one.
int64_t DaysOf(const Date& date) {
  const int64_t year = date.year - (date.month <= 2 ? 1 : 0);
  const int64_t era = year / 400;
  const int64_t of_era = year - era * 400;
  const int64_t of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

int64_t YearOf(double t) {
  return 1970 + static_cast<int64_t>(std::floor(t / (365.2425 * static_cast<double>(kSecondsPerDay))));
}

// Exactly `count` digits.
std::optional<int64_t> TakeDigitsOf(std::string_view* text, size_t count) {
  if (text->size() < count) return std::nullopt;
  int64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!scan::IsDigit((*text)[i])) return std::nullopt;
    value = value * 10 + ((*text)[i] - '0');
  }
  text->remove_prefix(count);
  return value;
}

// "10:30:15", with a fraction after a point or comma.
std::optional<double> TakeClock(std::string_view* text) {
  std::string_view rest = *text;
  const auto hour = TakeDigitsOf(&rest, 2);
  if (!hour || *hour > 23 || !scan::Take(&rest, ":")) return std::nullopt;
  const auto minute = TakeDigitsOf(&rest, 2);
  if (!minute || *minute > 59 || !scan::Take(&rest, ":")) return std::nullopt;
  const auto second = TakeDigitsOf(&rest, 2);
  if (!second || *second > 60 || (!rest.empty() && scan::IsDigit(rest.front()))) return std::nullopt;
  double t = static_cast<double>(*hour * 3600 + *minute * 60 + *second);
  if (rest.size() > 1 && (rest.front() == '.' || rest.front() == ',' || rest.front() == ':') &&
      scan::IsDigit(rest[1])) {
    double weight = 0.1;
    size_t i = 1;
    for (; i < rest.size() && scan::IsDigit(rest[i]); ++i, weight /= 10) t += weight * (rest[i] - '0');
    rest.remove_prefix(i);
  }
  *text = rest;
  return t;
}

// "Z", "+08:00", "+0800" or " UTC". No value: none is there.
std::optional<int64_t> TakeZone(std::string_view* text) {
  std::string_view rest = *text;
  if (scan::Take(&rest, "Z") || scan::Take(&rest, " UTC") || scan::Take(&rest, " GMT")) {
    if (!rest.empty() && scan::IsWordByte(rest.front())) return std::nullopt;
    *text = rest;
    return 0;
  }
  if (scan::Take(&rest, " ") && (rest.empty() || (rest.front() != '+' && rest.front() != '-'))) return std::nullopt;
  if (rest.empty() || (rest.front() != '+' && rest.front() != '-')) return std::nullopt;
  const int64_t sign = rest.front() == '+' ? 1 : -1;
  rest.remove_prefix(1);
  const auto hours = TakeDigitsOf(&rest, 2);
  if (!hours || *hours > 14) return std::nullopt;
  scan::Take(&rest, ":");
  const auto minutes = TakeDigitsOf(&rest, 2);
  if (!minutes || *minutes > 59 || (!rest.empty() && scan::IsWordByte(rest.front()))) return std::nullopt;
  *text = rest;
  return sign * (*hours * 3600 + *minutes * 60);
}

LineTime TimeAt(const Date& date, double clock, std::optional<int64_t> zone, const TimePolicy& policy) {
  return {static_cast<double>(DaysOf(date) * kSecondsPerDay - zone.value_or(policy.utc_offset_seconds)) + clock};
}

LineTime InLikelyYear(Date date, double clock, const TimePolicy& policy) {
  if (!(policy.observed_t > 0)) return {};
  for (date.year = YearOf(policy.observed_t) + 1; IsDate(date); --date.year) {
    const LineTime found = TimeAt(date, clock, std::nullopt, policy);
    if (*found.t <= policy.observed_t + static_cast<double>(kSecondsPerDay)) return found;
  }
  return {};
}

// 2024-01-15, 2024/01/15 or 01/15/2024.
std::optional<Date> TakeDate(std::string_view* text) {
  std::string_view rest = *text;
  Date date;
  size_t digits = 0;
  while (digits < rest.size() && digits < 5 && scan::IsDigit(rest[digits])) ++digits;
  if (digits == 4) {
    date.year = *TakeDigitsOf(&rest, 4);
    if (rest.empty() || (rest.front() != '-' && rest.front() != '/')) return std::nullopt;
    const char between = rest.front();
    rest.remove_prefix(1);
    const auto month = TakeDigitsOf(&rest, 2);
    if (!month || rest.empty() || rest.front() != between) return std::nullopt;
    rest.remove_prefix(1);
    const auto day = TakeDigitsOf(&rest, 2);
    if (!day) return std::nullopt;
    date.month = *month;
    date.day = *day;
  } else if (digits == 2) {
    const auto month = TakeDigitsOf(&rest, 2);
    if (!month || !scan::Take(&rest, "/")) return std::nullopt;
    const auto day = TakeDigitsOf(&rest, 2);
    if (!day || !scan::Take(&rest, "/")) return std::nullopt;
    const auto year = TakeDigitsOf(&rest, 4);
    if (!year) return std::nullopt;
    date = {*year, *month, *day};
  } else {
    return std::nullopt;
  }
  if (!IsDate(date)) return std::nullopt;
  *text = rest;
  return date;
}

std::optional<int64_t> TakeMonthName(std::string_view* text) {
  constexpr std::array<std::string_view, 12> kNames = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  for (size_t i = 0; i < kNames.size(); ++i)
    if (scan::Take(text, kNames[i])) return static_cast<int64_t>(i) + 1;
  return std::nullopt;
}

// "Jan  5 10:30:15", also "Jan  5 10:30:15 2024" and with a weekday before it.
std::optional<LineTime> TakeNamedMonth(std::string_view* text, const TimePolicy& policy) {
  std::string_view rest = *text;
  if (rest.size() < 4 || rest[3] != ' ') return std::nullopt;
  for (const std::string_view weekday : {"Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "})
    if (scan::Take(&rest, weekday)) break;
  Date date;
  const auto month = TakeMonthName(&rest);
  if (!month || !scan::Take(&rest, " ")) return std::nullopt;
  rest = scan::WithoutBlanksBefore(rest);
  const auto day = scan::TakeWhole(&rest);
  if (!day || *day < 1 || *day > 31 || !scan::Take(&rest, " ")) return std::nullopt;
  date.month = *month;
  date.day = *day;
  const auto clock = TakeClock(&rest);
  if (!clock) return std::nullopt;
  std::string_view after = rest;
  if (scan::Take(&after, " ")) {
    const auto year = TakeDigitsOf(&after, 4);
    if (year && (after.empty() || !scan::IsWordByte(after.front()))) {
      date.year = *year;
      if (IsDate(date)) {
        *text = after;
        return TimeAt(date, *clock, std::nullopt, policy);
      }
    }
  }
  *text = rest;
  return InLikelyYear(date, *clock, policy);
}

}  // namespace

std::optional<LineTime> TakeTime(std::string_view* text, const TimePolicy& policy) {
  if (text->size() < 8) return std::nullopt;
  if (scan::IsUpper(text->front())) return TakeNamedMonth(text, policy);
  if (!scan::IsDigit(text->front())) return std::nullopt;
  std::string_view rest = *text;
  const auto date = TakeDate(&rest);
  if (!date) {
    if (!TakeClock(&rest)) return std::nullopt;
    *text = rest;
    return LineTime{};
  }
  if (rest.empty() || (rest.front() != ' ' && rest.front() != 'T' && rest.front() != ':' && rest.front() != '-'))
    return std::nullopt;
  rest.remove_prefix(1);
  const auto clock = TakeClock(&rest);
  if (!clock) return std::nullopt;
  const auto zone = TakeZone(&rest);
  *text = rest;
  return TimeAt(*date, *clock, zone, policy);
}

std::optional<LineTime> TakeMonthDayTime(std::string_view* text, const TimePolicy& policy) {
  std::string_view rest = *text;
  size_t digits = 0;
  while (digits < rest.size() && scan::IsDigit(rest[digits])) ++digits;
  if (digits != 3 && digits != 4) return std::nullopt;
  Date date;
  date.month = *TakeDigitsOf(&rest, digits - 2);
  date.day = *TakeDigitsOf(&rest, 2);
  if (date.month < 1 || date.month > 12 || date.day < 1 || date.day > 31 || !scan::Take(&rest, " "))
    return std::nullopt;
  const auto clock = TakeClock(&rest);
  if (!clock) return std::nullopt;
  *text = rest;
  return InLikelyYear(date, *clock, policy);
}

}  // namespace stepwatch::logs
