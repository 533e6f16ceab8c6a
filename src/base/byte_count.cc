#include "src/base/byte_count.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace stepwatch::base {
namespace {

constexpr std::string_view kUnits = "KMGT";
constexpr double kStep = 1024;

// Factor of a unit, "B" included; 1 for an empty unit.
std::optional<double> FactorOf(std::string_view unit) {
  std::string upper;
  for (const char c : unit) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (upper.empty() || upper == "B") return 1;
  const size_t power = kUnits.find(upper[0]);
  const std::string_view rest = std::string_view(upper).substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "IB")) return std::nullopt;
  return std::pow(kStep, static_cast<double>(power + 1));
}

}  // namespace

std::optional<uint64_t> ParseByteCount(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (unit.size() > 1 && unit.front() == ' ') unit.remove_prefix(1);
  const std::optional<double> factor = FactorOf(unit);
  if (!factor || !(number >= 0) || number * *factor >= 0x1p63) return std::nullopt;
  return static_cast<uint64_t>(number * *factor);
}

std::string ByteCountText(uint64_t bytes) {
  if (bytes < static_cast<uint64_t>(kStep)) return std::to_string(bytes) + " B";
  auto number = static_cast<double>(bytes) / kStep;
  size_t unit = 0;
  while (number >= kStep && unit + 1 < kUnits.size()) number /= kStep, ++unit;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f %ciB", number, kUnits[unit]);
  return text.data();
}

}  // namespace stepwatch::base
