// What a benchmark found: a table on standard output, line by line as it goes, and a JSON file at the end.
//
//   {"facts": {…}, "ratios": [{"name", "ratio", "spread": [low, high]}], "figures": [{"name", "value", "unit",
//   "spread"}]}
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/rounds.h"

namespace stepwatch::bench {

// What a figure is held against: "at least 0.9", "at most 0.5 %", or nothing.
struct Target {
  enum class Kind { kNone, kAtLeast, kAtMost };
  Kind kind = Kind::kNone;
  double value = 0;
};
inline Target AtLeast(double value) {
  return {Target::Kind::kAtLeast, value};
}
inline Target AtMost(double value) {
  return {Target::Kind::kAtMost, value};
}

// How a ratio is printed.
enum class Style { kPercent, kTimes };

class Report {
 public:
  void Fact(const std::string& name, const nlohmann::ordered_json& value) { facts_[name] = value; }
  // A heading, and what all lines below it have in common.
  void Section(const std::string& title);
  // `detail` says what the ratio is made of.
  void Ratio(const std::string& name, const Spread& ratio, Style style, Target target = {},
             const std::string& detail = "");
  // Something that is no ratio and depends on the machine.
  void Figure(const std::string& name, const Spread& value, const char* unit, Target target = {},
              const std::string& detail = "");
  void LeftOut(const std::string& name, const std::string& reason);

  // False, with a line on standard error, if it cannot be written.
  bool WriteJson(const std::string& path) const;

 private:
  void Line(const std::string& name, const Spread& shown, const char* unit, Target target, const std::string& detail);

  nlohmann::ordered_json facts_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json ratios_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json figures_ = nlohmann::ordered_json::array();
};

}  // namespace stepwatch::bench
