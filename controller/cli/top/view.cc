#include "controller/cli/top/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "controller/cli/read_json.h"
#include "controller/cli/text/status_text.h"
#include "src/base/text.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kNameWidthMin = 16;
constexpr size_t kColumnWidth = 12;  // with the gap before it
constexpr size_t kStepWidth = 9;

constexpr const char* kKeys = "q quit  Tab kind  < > sort  r reverse  / filter  arrows, Home, End";

std::optional<double> NumberOf(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::nan("");
  if (value == "Infinity") return HUGE_VAL;
  if (value == "-Infinity") return -HUGE_VAL;
  return std::nullopt;
}

std::string NameText(const Json& value) {
  std::string name = Text(value, "name");
  if (const int64_t chunk = Whole(value, "chunk"); chunk > 0) name = fmt::format("{}:{}", chunk, name);
  if (const int64_t element = Whole(value, "element"); element >= 0) name += fmt::format("_{}", element);
  if (const int64_t call = Whole(value, "call"); call > 0) name += fmt::format("@{}", call);
  if (const int64_t micro_step = Whole(value, "micro_step"); micro_step > 0) name += fmt::format(":{}", micro_step);
  return name;
}

std::string ValueText(const std::optional<double>& value) {
  return value ? fmt::format("{:.5g}", *value) : "-";
}

Colour ColourOfValue(const std::optional<double>& value) {
  return value && !std::isfinite(*value) ? Colour::kRed : Colour::kPlain;
}

std::string Right(const std::string& text, size_t width) {
  const size_t shown = WidthOf(text);
  return shown >= width ? Cut(text, width) : std::string(width - shown, ' ') + text;
}
std::string Left(const std::string& text, size_t width) {
  const size_t shown = WidthOf(text);
  return shown >= width ? Cut(text, width) : text + std::string(width - shown, ' ');
}

std::string RanksLine(const Json& ranks) {
  const Json& list = List(ranks, "ranks");
  if (list.size() < 2) return "";
  std::map<std::string, int> states;
  int64_t least = INT64_MAX, most = -1;
  for (const Json& rank : list) {
    ++states[Text(rank, "state")];
    const int64_t step = Whole(rank, "step");
    if (step < 0) continue;
    least = std::min(least, step);
    most = std::max(most, step);
  }
  std::string line = fmt::format("ranks {} of {}:", list.size(), std::max<int64_t>(Whole(ranks, "world_size"), 0));
  for (const auto& [state, count] : states) line += fmt::format(" {} {}", count, state.empty() ? "silent" : state);
  if (most >= 0) line += least == most ? fmt::format(", step {}", most) : fmt::format(", steps {} to {}", least, most);
  return line;
}

std::string SortText(const TopChoice& choice) {
  const std::string by = choice.sort.empty() ? "the plan's order" : choice.sort;
  return "sorted by " + by + (choice.ascending ? ", reversed" : "");
}

std::string TableLine(const TopAnswers& answers, const TopTable& table, size_t chosen, const TopChoice& choice) {
  std::string line = answers.kind + ": ";
  if (table.rows.empty())
    return line + "no values yet; they appear with the next collected step of a plan that watches this kind";
  line += chosen == table.rows.size() ? fmt::format("{} rows", chosen)
                                      : fmt::format("{} of {} rows", chosen, table.rows.size());
  line += ", " + SortText(choice);
  if (choice.is_typing || !choice.filter.empty()) line += ", filter: " + choice.filter;
  return choice.is_typing ? line + "_" : line;
}

// The lines above the table: text and style.
std::vector<Cell> HeaderRow(const TopAnswers& answers) {
  std::vector<Cell> head{{"stepwatch top  " + JobLine(answers.job, answers.status), Colour::kBold}};
  if (answers.trouble.empty())
    head.push_back({PlainStateLine(answers.status), Colour::kPlain});
  else
    head.push_back({answers.trouble, Colour::kRed});
  head.push_back({CostLine(answers.status), Colour::kPlain});
  if (const std::string ranks = RanksLine(answers.ranks); !ranks.empty()) head.push_back({ranks, Colour::kPlain});
  return head;
}

struct Columns {
  size_t name = 0;   // its width
  size_t first = 0;  // the first statistic that is shown
  size_t count = 0;
};

// As many statistics as fit, including the one that sorts.
Columns Fit(const TopTable& table, const std::string& sort, size_t width) {
  Columns columns;
  const size_t room = width > kNameWidthMin + kStepWidth ? (width - kNameWidthMin - kStepWidth) / kColumnWidth : 0;
  columns.count = std::min(room, table.columns.size());
  const auto found = std::find(table.columns.begin(), table.columns.end(), sort);
  const auto place = static_cast<size_t>(found - table.columns.begin());
  if (found != table.columns.end() && columns.count > 0 && place >= columns.count)
    columns.first = place + 1 - columns.count;
  const size_t others = kStepWidth + columns.count * kColumnWidth;
  columns.name = width > others ? width - others : 0;
  return columns;
}

std::string HeadingLine(const TopTable& table, const Columns& columns, const std::string& sort) {
  std::string line = Left("SITE", columns.name) + Right("STEP", kStepWidth);
  for (size_t i = columns.first; i < columns.first + columns.count; ++i)
    line += Right((table.columns[i] == sort ? "*" : "") + table.columns[i], kColumnWidth);
  return line;
}

std::string RowLine(const TopRow& row, const Columns& columns, size_t width) {
  std::string line = Left(Cut(row.name, columns.name > 0 ? columns.name - 1 : 0), columns.name) +
                     Right(row.step < 0 ? "-" : std::to_string(row.step), kStepWidth);
  for (size_t i = columns.first; i < columns.first + columns.count; ++i)
    line += Coloured(Right(ValueText(row.values[i]), kColumnWidth), ColourOfValue(row.values[i]));
  return columns.count == 0 ? Cut(line, width) : line;
}

std::vector<std::string> ScreenLines(const TopAnswers& answers, const TopChoice& choice, size_t width,
                                     std::optional<size_t> height) {
  const TopTable table = TableOf(answers.latest);
  const std::vector<TopRow> rows = ChosenRows(table, choice);
  std::vector<std::string> lines;
  for (const Cell& line : HeaderRow(answers)) lines.push_back(Coloured(Cut(line.text, width), line.colour));
  lines.push_back(Cut(TableLine(answers, table, rows.size(), choice), width));
  const Columns columns = Fit(table, choice.sort, width);
  lines.push_back(Coloured(Cut(HeadingLine(table, columns, choice.sort), width), Colour::kBold));
  const size_t page = height ? TopPage(answers, {width, *height}) : rows.size();
  const size_t first = std::min(choice.first, rows.size() > page ? rows.size() - page : 0);
  for (size_t i = first; i < std::min(rows.size(), first + page); ++i)
    lines.push_back(RowLine(rows[i], columns, width));
  if (height) {
    lines.resize(*height > 0 ? *height - 1 : 0);
    if (*height > 0) lines.push_back(Coloured(Cut(kKeys, width), Colour::kDim));
  }
  return lines;
}

}  // namespace

Json CostAsLatest(const Json& status) {
  const Json& cost = Part(status, "cost");
  double all = 0;
  for (const Json& seconds : Part(cost, "per_collected_step"))
    if (seconds.is_number()) all += seconds.get<double>();
  Json values = Json::array();
  for (const auto& [name, seconds] : Part(cost, "per_collected_step").items()) {
    if (!seconds.is_number()) continue;
    const double each = seconds.get<double>();
    values.push_back({{"name", name},
                      {"values",
                       {{"ms/step", each * 1e3},
                        {"percent", all > 0 ? Json(100 * each / all) : Json()},
                        {"seconds", Number(Part(cost, "parts"), name.c_str())}}}});
  }
  return {{"values", values}};
}

TopTable TableOf(const Json& latest) {
  TopTable table;
  for (const Json& value : List(latest, "values")) {
    TopRow row;
    row.name = NameText(value);
    row.step = Whole(value, "step");
    row.values.resize(table.columns.size());
    for (const auto& [untrusted, number] : Part(value, "values").items()) {
      const std::string name = base::Printable(untrusted, kColumnWidth);
      auto found = std::find(table.columns.begin(), table.columns.end(), name);
      if (found == table.columns.end()) found = table.columns.insert(found, name);
      row.values.resize(table.columns.size());
      row.values[static_cast<size_t>(found - table.columns.begin())] = NumberOf(number);
    }
    table.rows.push_back(std::move(row));
  }
  for (TopRow& row : table.rows) row.values.resize(table.columns.size());
  return table;
}

std::vector<TopRow> ChosenRows(const TopTable& table, const TopChoice& choice) {
  std::vector<TopRow> rows;
  for (const TopRow& row : table.rows)
    if (row.name.find(choice.filter) != std::string::npos) rows.push_back(row);
  const auto found = std::find(table.columns.begin(), table.columns.end(), choice.sort);
  if (found == table.columns.end()) {
    if (choice.ascending) std::reverse(rows.begin(), rows.end());
    return rows;
  }
  const auto column = static_cast<size_t>(found - table.columns.begin());
  std::stable_sort(rows.begin(), rows.end(), [&](const TopRow& a, const TopRow& b) {
    const auto rank = [&](const TopRow& row) {
      return !row.values[column] ? 2 : std::isnan(*row.values[column]) ? 0 : 1;
    };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (rank(a) != 1) return false;
    return choice.ascending ? *a.values[column] < *b.values[column] : *a.values[column] > *b.values[column];
  });
  return rows;
}

std::vector<std::string> TopLines(const TopAnswers& answers, const TopChoice& choice, TopSize size) {
  return ScreenLines(answers, choice, size.width, size.height);
}

std::vector<std::string> TopLinesOfAll(const TopAnswers& answers, const TopChoice& choice) {
  const TopTable table = TableOf(answers.latest);
  size_t name = kNameWidthMin;
  for (const TopRow& row : table.rows) name = std::max(name, WidthOf(row.name) + 1);
  return ScreenLines(answers, choice, std::max<size_t>(name + kStepWidth + table.columns.size() * kColumnWidth, 120),
                     std::nullopt);
}

size_t TopPage(const TopAnswers& answers, TopSize size) {
  const size_t others = HeaderRow(answers).size() + 3;  // about the table, its heading, the keys
  return size.height > others ? size.height - others : 0;
}

}  // namespace stepwatch::cli
