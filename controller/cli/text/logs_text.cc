#include "controller/cli/text/logs_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "controller/cli/text/text_table.h"
#include "controller/cli/text/time_text.h"
#include "src/base/text.h"
#include "src/logs/anomalies.h"
#include "src/logs/write_record.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kNotableMax = 10000;
constexpr size_t kRanksMax = 100000;
constexpr size_t kRanksInTable = 40;
constexpr size_t kFindingsShown = 8;
constexpr size_t kLineShown = 300;

std::string RankName(const std::optional<int64_t>& rank, const std::optional<int64_t>& local_rank) {
  if (rank) return fmt::format("rank {}", *rank);
  if (local_rank) return fmt::format("local rank {}", *local_rank);
  return {};
}

// "nccl_timeout", or the type of the exception.
std::string NameOfFinding(const logs::Record& record) {
  if (!record.anomalies.empty()) return std::string(record.anomalies.front().name);
  return record.exception && !record.exception->type.empty() ? base::Printable(record.exception->type) : "exception";
}

// "rank 3, node1, 2024-01-15 10:30:15, logs/rank3.log".
std::string PlaceOfRecord(const logs::Record& record) {
  std::vector<std::string> parts;
  if (std::string rank = RankName(record.rank, record.local_rank); !rank.empty()) parts.push_back(std::move(rank));
  if (!record.host.empty()) parts.push_back(base::Printable(record.host));
  if (record.t) parts.push_back(LocalTimeText(*record.t));
  if (!record.source.empty()) parts.push_back(base::Printable(record.source, 120));
  return base::Joined(parts, ", ");
}

std::string FirstLine(const std::string& text) {
  return base::Printable(std::string_view(text).substr(0, text.find('\n')), kLineShown);
}

std::string NumberOrDash(const std::vector<std::pair<std::string, double>>& numbers, std::string_view key) {
  for (const auto& [name, value] : numbers)
    if (name == key) return fmt::format("{:.6g}", value);
  return "-";
}

}  // namespace

void LogSummary::Add(const logs::Record& record) {
  ++records_;
  if (!record.anomalies.empty() || record.exception) {
    if (notable_.size() < kNotableMax)
      notable_.push_back(record);
    else
      ++notable_left_out_;
  }
  const int64_t rank = record.rank.value_or(record.local_rank.value_or(-1));
  if (!ranks_.contains(rank) && ranks_.size() >= kRanksMax) return;
  RankState& state = ranks_[rank];
  if (record.t) state.t = std::max(state.t, *record.t);
  if (logs::EffectiveLevel(record) >= logs::Level::kError) ++state.errors;
  if (!record.progress || record.progress->is_evaluation) return;
  if (record.progress->step && record.progress->step == state.step) {  // several lines report one step
    for (const auto& entry : record.progress->numbers) {
      const auto same = std::find_if(state.numbers.begin(), state.numbers.end(),
                                     [&entry](const auto& known) { return known.first == entry.first; });
      if (same == state.numbers.end()) state.numbers.push_back(entry);
    }
    return;
  }
  state.step = record.progress->step ? record.progress->step : state.step;
  state.numbers = record.progress->numbers;
}

std::string LogSummary::CausesText() const {
  std::vector<size_t> order = logs::RankCauses(notable_);
  // An exception without a class of its own is still a cause, after all that have one.
  std::set<size_t> listed(order.begin(), order.end());
  for (size_t i = 0; i < notable_.size(); ++i)
    if (!listed.contains(i)) order.push_back(i);
  if (order.empty()) return "no fault found\n";
  const logs::Record& cause = notable_[order.front()];
  std::string text = Coloured(fmt::format("cause: {}", NameOfFinding(cause)), Colour::kRed);
  if (!cause.anomalies.empty()) {
    const logs::Anomaly& anomaly = cause.anomalies.front();
    if (const std::string_view title = logs::AnomalyTitle(anomaly.name); !title.empty())
      text += fmt::format(" ({})", title);
    if (anomaly.culprit_rank) text += fmt::format(", caused by rank {}", *anomaly.culprit_rank);
  }
  if (const std::string place = PlaceOfRecord(cause); !place.empty()) text += "\n  " + place;
  text += "\n  " + FirstLine(cause.message) + "\n";
  if (!cause.anomalies.empty()) {
    if (const std::string_view advice = logs::AnomalyAdvice(cause.anomalies.front().name); !advice.empty())
      text += fmt::format("  next: {}\n", advice);
  }
  if (order.size() == 1) return text;
  text += fmt::format("\nother findings: {}\n", order.size() - 1 + notable_left_out_);
  for (size_t i = 1; i < order.size() && i <= kFindingsShown; ++i) {
    const logs::Record& record = notable_[order[i]];
    const std::string rank = RankName(record.rank, record.local_rank);
    text +=
        fmt::format("  {}{}{}: {}\n", NameOfFinding(record), rank.empty() ? "" : ", ", rank, FirstLine(record.message));
  }
  return text;
}

std::string LogSummary::RanksText() const {
  std::vector<std::vector<Cell>> rows = {
      HeadingRow({"RANK", "STEP", "LOSS", "GRAD_NORM", "LR", "LAST LINE", "ERRORS"})};
  size_t left_out = 0;
  for (const auto& [rank, state] : ranks_) {
    if (rows.size() > kRanksInTable) {
      ++left_out;
      continue;
    }
    const std::string time = LocalTimeText(state.t);
    rows.push_back({{rank < 0 ? "-" : std::to_string(rank)},
                    {state.step ? std::to_string(*state.step) : "-"},
                    {NumberOrDash(state.numbers, "loss")},
                    {NumberOrDash(state.numbers, "grad_norm")},
                    {NumberOrDash(state.numbers, "lr")},
                    {time.empty() ? "-" : time},
                    {std::to_string(state.errors), state.errors > 0 ? Colour::kRed : Colour::kPlain}});
  }
  std::string text = TableText(std::move(rows));
  if (left_out > 0) text += fmt::format("{} more ranks; --rank N --json shows one\n", left_out);
  return text;
}

std::string LogSummary::Text() const {
  if (records_ == 0) return "no lines\n";
  return CausesText() + "\n" + RanksText();
}

std::string RecordText(const logs::Record& record) {
  std::vector<std::string> head;
  if (record.t) head.push_back(LocalTimeText(logs::TimeOf(record)));
  if (std::string rank = RankName(record.rank, record.local_rank); !rank.empty()) head.push_back(std::move(rank));
  if (const logs::Level level = logs::EffectiveLevel(record); level != logs::Level::kUnset)
    head.emplace_back(logs::LevelName(level));
  std::string text = base::Joined(head, " ");
  if (!text.empty()) text += ": ";
  return text + (record.exception && !record.exception->stack.empty() ? record.exception->stack : record.message) +
         "\n";
}

}  // namespace stepwatch::cli
