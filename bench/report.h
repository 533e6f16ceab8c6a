// The results of a benchmark: a table on standard output, printed line by line, and a JSON file at the end.
//
//   {"facts": {…}, "ratios": [{"name", "ratio", "spread": [low, high]}], "figures": [{"name", "value", "unit",
//   "spread"}]}
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/rounds.h"

namespace stepwatch::bench {

// The limit of a figure: "at least 0.9", "at most 0.5 %", or none.
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

// Format of a ratio.
enum class Style { kPercent, kTimes };

class Report {
 public:
  void Fact(const std::string& name, const nlohmann::ordered_json& value) { facts_[name] = value; }
  // Prints a heading for the lines below it.
  void Section(const std::string& title);
  // `detail` describes the parts of the ratio.
  void Ratio(const std::string& name, const Spread& ratio, Style style, Target target = {},
             const std::string& detail = "");
  // Adds a value that is not a ratio and depends on the machine.
  void Figure(const std::string& name, const Spread& value, const char* unit, Target target = {},
              const std::string& detail = "");
  void LeftOut(const std::string& name, const std::string& reason);

  // Returns false, with a line on standard error, if the file cannot be written.
  bool WriteJson(const std::string& path) const;

 private:
  void Line(const std::string& name, const Spread& shown, const char* unit, Target target, const std::string& detail);

  nlohmann::ordered_json facts_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json ratios_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json figures_ = nlohmann::ordered_json::array();
};

}  // namespace stepwatch::bench
