#include "bench/report.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace stepwatch::bench {
namespace {

// Formats three digits, or more for large whole numbers.
std::string Number(double value) {
  const double magnitude = std::abs(value);
  const int decimals = magnitude >= 100 || magnitude == 0 ? 0 : magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : 3;
  char text[32];
  if (magnitude > 0 && magnitude < 0.001)
    std::snprintf(text, sizeof text, "%.2g", value);
  else
    std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string TargetText(Target target, const char* unit) {
  if (target.kind == Target::Kind::kNone) return "";
  return (target.kind == Target::Kind::kAtLeast ? ">= " : "<= ") + Number(target.value) + " " + unit;
}

const char* Verdict(Target target, double value) {
  if (target.kind == Target::Kind::kNone) return "";
  return (target.kind == Target::Kind::kAtLeast ? value >= target.value : value <= target.value) ? "met" : "missed";
}

}  // namespace

void Report::Section(const std::string& title) {
  std::printf("\n%s\n%-40s %12s %20s %12s %-7s\n", title.c_str(), "", "median", "quartiles", "target", "");
}

void Report::Line(const std::string& name, const Spread& shown, const char* unit, Target target,
                  const std::string& detail) {
  const std::string value = Number(shown.median) + " " + unit;
  const std::string quartiles = "[" + Number(shown.low) + ", " + Number(shown.high) + "]";
  std::printf("%-40s %12s %20s %12s %-7s %s\n", name.c_str(), value.c_str(), quartiles.c_str(),
              TargetText(target, unit).c_str(), Verdict(target, shown.median), detail.c_str());
  std::fflush(stdout);
}

void Report::Ratio(const std::string& name, const Spread& ratio, Style style, Target target,
                   const std::string& detail) {
  const double scale = style == Style::kPercent ? 100 : 1;
  Line(name, Scaled(ratio, scale), style == Style::kPercent ? "%" : "x", {target.kind, target.value * scale}, detail);
  ratios_.push_back({{"name", name}, {"ratio", ratio.median}, {"spread", {ratio.low, ratio.high}}});
}

void Report::Figure(const std::string& name, const Spread& value, const char* unit, Target target,
                    const std::string& detail) {
  Line(name, value, unit, target, detail);
  figures_.push_back({{"name", name}, {"value", value.median}, {"unit", unit}, {"spread", {value.low, value.high}}});
}

void Report::LeftOut(const std::string& name, const std::string& reason) {
  std::printf("%-40s left out: %s\n", name.c_str(), reason.c_str());
}

bool Report::WriteJson(const std::string& path) const {
  std::ofstream file(path);
  file << nlohmann::ordered_json{{"facts", facts_}, {"ratios", ratios_}, {"figures", figures_}}.dump(1) << "\n";
  file.close();
  if (!file.fail()) return true;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return false;
}

}  // namespace stepwatch::bench
