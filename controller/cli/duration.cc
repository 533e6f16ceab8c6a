#include "controller/cli/duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace stepwatch::cli {
namespace {

// What a count of seconds holds, and more than anybody waits.
constexpr double kDurationSecondsMax = 1e12;

}  // namespace

std::optional<int64_t> ParseTimespan(std::string_view text) {
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

std::string DurationText(double seconds) {
  const auto whole = seconds > 0 ? static_cast<int64_t>(std::min(seconds, kDurationSecondsMax)) : 0;
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} m", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {:02} h", whole / 86400, whole / 3600 % 24);
}

std::string ShortDurationText(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", std::max(0.0, seconds) * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  return seconds < 60 ? fmt::format("{:.2f} s", seconds) : DurationText(seconds);
}

}  // namespace stepwatch::cli
