// The screen of `stepwatch top`: what a job has answered and what its watcher has chosen, as lines of text. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "controller/cli/text_table.h"
#include "controller/cli/top_choice.h"
#include "src/json/json.h"

namespace stepwatch::cli {

// The answers of a job at one moment, all of them untrusted.
struct TopAnswers {
  std::string job;      // as `stepwatch ps` names it
  Json status;          // of /v1/status
  Json ranks;           // of /v1/ranks
  std::string kind;     // of sites
  Json latest;          // of /v1/latest/{kind}
  std::string trouble;  // the job has not answered this time, and the rest is older; empty: it has
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

// Of kCostKind: as an answer of /v1/latest/{kind} would be.
Json CostAsLatest(const Json& status_untrusted);

// The rows that the filter lets pass, in their order. What is no number comes first, so that nobody has to look for it;
// what is missing comes last.
std::vector<TopRow> ChosenRows(const TopTable& table, const TopChoice& choice);

struct TopSize {
  size_t width = 80;
  size_t height = 24;
};

// Lines without their ends, none wider than the screen, and not more of them than it has.
std::vector<std::string> TopLines(const TopAnswers& answers, const TopChoice& choice, TopSize size);
// All rows, as wide as they are, without the line about keys.
std::vector<std::string> TopLinesOfAll(const TopAnswers& answers, const TopChoice& choice);
// Rows on a screen.
size_t TopPage(const TopAnswers& answers, TopSize size);

}  // namespace stepwatch::cli
