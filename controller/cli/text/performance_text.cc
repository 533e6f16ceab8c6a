#include "controller/cli/text/performance_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "controller/cli/read_json.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/text/time_text.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kRowsMax = 1000;

using Format = std::string (*)(double);

std::string Percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}
std::string PercentValue(double percent) {
  return fmt::format("{:.0f} %", percent);
}
std::string Plain(double number) {
  return fmt::format("{:.5g}", number);
}
std::string Rate(double number) {
  if (number >= 1e6) return fmt::format("{:.4g} M", number / 1e6);
  return number >= 1000 ? fmt::format("{:.0f}", number) : fmt::format("{:.4g}", number);
}
std::string Bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string NumberIn(const Json& object, const char* name, Format format) {
  const Json& value = Member(object, name);
  if (!value.is_number()) return "-";
  const double number = value.get<double>();
  return std::isfinite(number) ? format(number) : "-";
}

std::string SpreadOf(const Json& distribution, Format format) {
  if (Whole(distribution, "samples", 0) <= 0) return "-";
  std::string text;
  for (const char* name : {"p5", "p50", "p95", "p99"})
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + NumberIn(distribution, name, format);
  const int64_t samples = Whole(distribution, "samples", 0), values = Whole(distribution, "values", 0);
  if (samples < values) text += fmt::format(" ({} samples of {})", samples, values);
  return text;
}

PerformanceSection LossSection(const Json& report) {
  PerformanceSection section{"Loss", {}};
  for (const Json& each : List(report, "losses")) {
    const std::string name = Text(each, "series");
    section.rows.push_back({name, NumberIn(each, "first", Plain) + " to " + NumberIn(each, "last", Plain) + ", best " +
                                      NumberIn(each, "best", Plain)});
    std::string slope = "-";
    if (Member(each, "slope").is_number())
      slope =
          fmt::format("{:.4g} for each e-fold of {} (95 %: {:.4g} to {:.4g}), {}", Number(each, "slope"),
                      Text(each, "over"), Number(each, "slope_low"), Number(each, "slope_high"), Text(each, "verdict"));
    section.rows.push_back({name + ", slope", slope});
    if (const int64_t bad = Whole(each, "nonfinite", 0); bad > 0)
      section.rows.push_back({name + ", not finite", fmt::format("{} values", bad)});
  }
  section.rows.push_back({"generalisation gap", NumberIn(report, "generalisation_gap", Plain)});
  section.rows.push_back({"gradient norm", SpreadOf(Part(report, "grad_norm"), Plain)});
  section.rows.push_back({"clipped steps", NumberIn(report, "clip_share", Percent)});
  const Json& schedule = Part(report, "schedule");
  std::string rate = "-";
  if (!schedule.empty()) {
    rate = Text(schedule, "kind") + ", peak " + NumberIn(schedule, "peak", Plain);
    if (Member(schedule, "warm_up_until").is_number())
      rate += ", warm-up until step " + NumberIn(schedule, "warm_up_until", Rate);
    if (const int64_t count = Whole(schedule, "deviations_count", 0); count > 0)
      rate +=
          fmt::format(", {} deviation{} from step {:.0f} on", count, count == 1 ? "" : "s",
                      Number(List(schedule, "deviations").empty() ? Json() : List(schedule, "deviations")[0], "step"));
  }
  section.rows.push_back({"learning rate", rate});
  return section;
}

PerformanceSection MachineSection(const Json& report) {
  PerformanceSection section{"Machines", {}};
  const Json &gpu = Part(report, "gpu"), &memory = Part(report, "memory");
  section.rows.push_back({"GPU utilisation", NumberIn(gpu, "utilization", PercentValue) + ", lowest " +
                                                 NumberIn(gpu, "utilization_low", PercentValue)});
  section.rows.push_back({"device memory", NumberIn(memory, "allocated_bytes", Bytes) + " allocated of " +
                                               NumberIn(memory, "reserved_bytes", Bytes) + " reserved"});
  section.rows.push_back({"fragmentation", NumberIn(memory, "fragmentation", Percent)});
  section.rows.push_back({"allocator retries", NumberIn(memory, "alloc_retries", Plain)});
  section.rows.push_back({"host memory, highest", NumberIn(memory, "host_share_max", Percent)});
  std::string slow;
  for (const Json& each : List(report, "stragglers"))
    slow += (slow.empty() ? "" : ", ") +
            fmt::format("rank {} ({:.2f} times the median)", Whole(each, "rank"), Number(each, "ratio"));
  section.rows.push_back({"slow ranks", slow.empty() ? "-" : slow});
  return section;
}

std::string RowsTable(std::vector<Cell> heading, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<Cell>> table{std::move(heading)};
  for (const auto& row : rows) {
    table.emplace_back();
    for (const std::string& cell : row) table.back().push_back({cell, Colour::kPlain});
  }
  return TableText(std::move(table));
}

}  // namespace

std::vector<PerformanceSection> PerformanceSections(const Json& report) {
  std::vector<PerformanceSection> sections;
  const Json& step = Part(report, "step_seconds");
  sections.push_back({"Pace",
                      {{"steps that counted", fmt::format("{}", Whole(report, "steps_counted", 0))},
                       {"step time", SpreadOf(step, StepTimeText)},
                       {"step time, mean", NumberIn(step, "mean", StepTimeText) + "; weighted by time " +
                                               NumberIn(step, "mean_by_time", StepTimeText)},
                       {"tokens/s", NumberIn(report, "tokens_per_second", Rate)},
                       {"samples/s", NumberIn(report, "samples_per_second", Rate)},
                       {"MFU", NumberIn(report, "mfu", Percent)}}});
  PerformanceSection time{"Time", {{"goodput", NumberIn(report, "goodput", Percent)}}};
  const double seconds = Number(report, "seconds");
  for (const auto& [cause, lost] : Part(report, "lost_seconds").items())
    if (lost.is_number() && time.rows.size() < kRowsMax)
      time.rows.push_back(
          {"lost to " + json::PrintableText(Json{{"c", cause}}, "c"),
           DurationText(lost.get<double>()) + (seconds > 0 ? " (" + Percent(lost.get<double>() / seconds) + ")" : "")});
  time.rows.push_back({"not known", DurationText(Number(report, "other_seconds"))});
  sections.push_back(std::move(time));
  PerformanceSection parts{"Parts of a step", {}};
  for (const auto& [name, part] : Part(report, "parts").items())
    if (part.is_number() && parts.rows.size() < kRowsMax)
      parts.rows.push_back({json::PrintableText(Json{{"n", name}}, "n"), StepTimeText(part.get<double>())});
  parts.rows.push_back({"exposed communication", NumberIn(report, "exposed_communication", Percent)});
  const Json& checkpoint = Part(report, "checkpoint");
  parts.rows.push_back({"checkpoint", NumberIn(checkpoint, "seconds_mean", StepTimeText) + " each, " +
                                          NumberIn(checkpoint, "share", Percent) + " of the time, " +
                                          NumberIn(checkpoint, "bytes", Bytes)});
  sections.push_back(std::move(parts));
  sections.push_back(MachineSection(report));
  sections.push_back(LossSection(report));
  const Json& legacy = Part(report, "legacy");
  std::string score = NumberIn(legacy, "score", Plain);
  if (const std::string rating = Text(legacy, "rating"); !rating.empty()) score += " (" + rating + ")";
  sections.push_back({"Legacy score", {{"score", score}}});
  return sections;
}

std::vector<std::vector<std::string>> InterruptionRows(const Json& report) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& each : List(report, "interruptions")) {
    if (rows.size() == kRowsMax) break;
    const int64_t count = Whole(each, "count", 1);
    const std::string kind = Text(each, "incident_kind");
    rows.push_back({LocalTimeText(Number(each, "from_t")), DurationText(Number(each, "seconds")),
                    Text(each, "cause") + (count > 1 ? fmt::format(" ({} times)", count) : ""),
                    kind.empty() ? "" : kind + " " + Text(each, "incident")});
  }
  return rows;
}

std::vector<std::vector<std::string>> EvaluationRows(const Json& report) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& each : List(report, "evaluations")) {
    if (rows.size() == kRowsMax) break;
    rows.push_back({Text(each, "name"), NumberIn(each, "last", Plain), fmt::format("{}", Whole(each, "last_step")),
                    NumberIn(each, "best", Plain), fmt::format("{}", Whole(each, "best_step")),
                    IsTrue(each, "regression") ? "worse" : ""});
  }
  return rows;
}

std::string PerformanceText(const Json& report) {
  std::string text = fmt::format("{}: {} to {}, {}\n", Text(report, "run"), LocalTimeText(Number(report, "from_t")),
                                 LocalTimeText(Number(report, "until_t")), DurationText(Number(report, "seconds")));
  for (const std::string& finding : Texts(report, "findings")) text += "! " + finding + "\n";
  for (const PerformanceSection& section : PerformanceSections(report)) {
    text += "\n" + Coloured(section.title, Colour::kBold) + "\n";
    for (const PerformanceRow& row : section.rows) text += fmt::format("  {:<22} {}\n", row.name, row.value);
  }
  if (const auto rows = InterruptionRows(report); !rows.empty()) {
    text += "\n" + RowsTable(HeadingRow({"INTERRUPTED", "FOR", "CAUSE", "INCIDENT"}), rows);
    if (const int64_t more = Whole(report, "interruptions_left_out", 0); more > 0)
      text += fmt::format("and {} shorter ones\n", more);
  }
  if (const auto rows = EvaluationRows(report); !rows.empty())
    text += "\n" + RowsTable(HeadingRow({"EVALUATION", "LAST", "STEP", "BEST", "STEP", ""}), rows);
  return text;
}

}  // namespace stepwatch::cli
