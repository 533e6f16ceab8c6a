#include "controller/cli/text/time_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>

namespace stepwatch::cli {
namespace {

// True if an int64_t holds it.
constexpr double kDurationSecondsMax = 1e12;

}  // namespace

std::optional<int64_t> ParseDuration(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  constexpr int64_t kNumberMax = 100000;
  if (error != std::errc() || number < 0 || number > kNumberMax || unit.size() != 1) return std::nullopt;
  switch (unit[0]) {
    case 's': return number;
    case 'm': return number * 60;
    case 'h': return number * 3600;
    case 'd': return number * 86400;
    case 'w': return number * 7 * 86400;
    default: return std::nullopt;
  }
}

std::optional<std::chrono::microseconds> ParseStepTime(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end == text.c_str() ? "no number" : end;
  const double microseconds = unit == "us" ? number : unit.empty() || unit == "ms" ? number * 1e3 : number * 1e6;
  if ((unit != "us" && unit != "ms" && unit != "s" && !unit.empty()) || !(microseconds >= 0) || microseconds > 3.6e9)
    return std::nullopt;
  return std::chrono::microseconds(static_cast<int64_t>(microseconds));
}

std::string DurationText(double seconds) {
  const auto whole = seconds > 0 ? static_cast<int64_t>(std::min(seconds, kDurationSecondsMax)) : 0;
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} m", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole / 3600 % 24);
}

std::string StepTimeText(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", std::max(0.0, seconds) * 1e6);
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string ShortDurationText(double seconds) {
  return seconds < 60 ? StepTimeText(seconds) : DurationText(seconds);
}

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string LocalTimeText(double t, TimeDigits digits) {
  if (!(t > 0) || t > 1e11) return "";
  const auto seconds = static_cast<std::time_t>(t);
  std::tm local{};
  if (::localtime_r(&seconds, &local) == nullptr) return "";
  return digits == TimeDigits::kSecond ? fmt::format("{:%Y-%m-%d %H:%M:%S}", local)
                                       : fmt::format("{:%Y-%m-%d %H:%M}", local);
}

std::optional<double> ParseUtc(const std::string& text) {
  std::tm utc{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (rest == nullptr) return std::nullopt;
  const double fraction = *rest == '.' ? std::strtod(rest, nullptr) : 0;
  return static_cast<double>(::timegm(&utc)) + fraction;
}

}  // namespace stepwatch::cli
