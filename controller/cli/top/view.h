// The screen of `stepwatch top`: a job's answers and the user's choices as lines of text. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "controller/cli/text/text_table.h"
#include "src/json/json.h"

namespace stepwatch::cli {

// Shown like a kind of sites: the cost of measuring in a collected step, with a row for each kind.
inline constexpr const char* kCostKind = "cost";

struct TopChoice {
  std::string sort{};      // a statistic; empty: the order of the plan
  bool ascending = false;  // the smallest first
  std::string filter{};    // only names that contain it
  bool is_typing = false;  // the filter
  size_t first = 0;        // row at the top
};

// The answers of a job at one moment, all of them untrusted.
struct TopAnswers {
  std::string job;      // its name in `stepwatch ps`
  Json status;          // of /v1/status
  Json ranks;           // of /v1/ranks
  std::string kind;     // of sites
  Json latest;          // of /v1/latest/{kind}
  std::string trouble;  // why the job did not answer; the other members are then older; empty: it answered
};

// One tensor of a site: a row of the table.
struct TopRow {
  std::string name;  // "fc.weight", "1:fc.weight" of the second chunk, "fc.input:2" of a micro-step
  int64_t step = -1;
  std::vector<std::optional<double>> values;  // in the order of the columns
};

struct TopTable {
  std::vector<std::string> columns;  // statistics
  std::vector<TopRow> rows;          // in the order of the plan
};

TopTable TableOf(const Json& latest_untrusted);

// The values of kCostKind in the form of /v1/latest/{kind}.
Json CostAsLatest(const Json& status_untrusted);

// The rows that pass the filter, sorted. NaN comes first, so that it is visible; missing values come last.
std::vector<TopRow> ChosenRows(const TopTable& table, const TopChoice& choice);

struct TopSize {
  size_t width = 80;
  size_t height = 24;
};

// Lines without line ends, at most as wide and as many as the screen.
std::vector<std::string> TopLines(const TopAnswers& answers, const TopChoice& choice, TopSize size);
// All rows at full width, without the line about keys.
std::vector<std::string> TopLinesOfAll(const TopAnswers& answers, const TopChoice& choice);
// Rows on a screen.
size_t TopPage(const TopAnswers& answers, TopSize size);

}  // namespace stepwatch::cli
