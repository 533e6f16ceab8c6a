#include "controller/cli/text/status_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "controller/cli/find_job.h"
#include "controller/cli/read_json.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/text/time_text.h"
#include "src/base/byte_count.h"
#include "src/base/text.h"
#include "src/config/config.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

Colour StateColour(const std::string& state) {
  if (state == "COLLECTING") return Colour::kGreen;
  if (state == "FAILED") return Colour::kRed;
  if (state == "PREPARING" || state == "ARMED" || state == "DRAINING") return Colour::kYellow;
  return Colour::kDim;
}

// "5/100", or "5" without an end in sight.
std::string Progress(const Json& status) {
  const int64_t collected = Whole(status, "collected"), times = Whole(status, "collect_times");
  if (Whole(status, "plan_id") < 0 || collected < 0) return "-";
  return times < 0 || times >= config::kCollectTimesForever ? fmt::format("{}", collected)
                                                            : fmt::format("{}/{}", collected, times);
}

std::vector<Cell> RowOf(const control_socket::FoundJob& job) {
  const Json status = StatusOf(job);
  if (status.empty())
    return {{job.name}, {"-"}, {"no answer", Colour::kRed}, {"-"}, {"-"}, {"-"}, {job.why, Colour::kDim}};
  const std::string state = Text(status, "state");
  return {{job.name},
          {fmt::format("{}/{}", Whole(status, "rank"), Whole(status, "world_size"))},
          {state + (IsTrue(status, "paused") ? ", paused" : ""), StateColour(state)},
          {OrDash(Whole(status, "step"))},
          {OrDash(Whole(status, "plan_id"))},
          {Progress(status)},
          {Text(status, "config_path") + (IsTrue(status, "drift") ? " (drift)" : "") +
           (job.uid == ::geteuid() ? "" : fmt::format(" (of uid {})", job.uid))}};
}

// The rest of the line after the state.
std::string ProgressText(const Json& status) {
  std::string line;
  const Json& plan = Part(status, "plan");
  if (const int64_t id = Whole(status, "plan_id"); id > 0)
    line += fmt::format(", plan {}: {} steps collected", id, Progress(status));
  if (const int64_t interval = Whole(plan, "step_interval"); interval > 1) line += fmt::format(", 1 of {}", interval);
  if (const Json& armed = Part(status, "armed"); Whole(armed, "plan_id") > 0)
    line += fmt::format(", plan {} waits{}", Whole(armed, "plan_id"),
                        Whole(armed, "at_step") < 0 ? "" : fmt::format(" for step {}", Whole(armed, "at_step")));
  if (const int64_t proposed = Whole(status, "proposed_step"); proposed >= 0)
    line += fmt::format(", the ranks vote on step {}", proposed);
  return line;
}

std::string StateLine(const Json& status) {
  const std::string state = Text(status, "state");
  const std::string paused = IsTrue(status, "paused") ? ", " + Coloured("paused", Colour::kYellow) : "";
  return Coloured(state, StateColour(state)) + paused + ProgressText(status);
}

std::string StepText(const Json& status) {
  const double seconds = Number(status, "step_seconds", -1);
  return OrDash(Whole(status, "step")) +
         (seconds < 0 ? "" : fmt::format(", {} per step recently", StepTimeText(seconds)));
}

std::string RowsLine(const Json& ledger) {
  std::string line = fmt::format("{} produced, {} written", Whole(ledger, "produced"), Whole(ledger, "written"));
  int64_t total = 0;
  std::vector<std::string> reasons;
  for (const auto& [reason, count] : Part(ledger, "dropped").items()) {
    if (!count.is_number_integer() || count.get<int64_t>() <= 0) continue;
    total += count.get<int64_t>();
    reasons.push_back(fmt::format("{} {}", count.get<int64_t>(), base::Printable(reason)));
  }
  return total == 0
             ? line
             : line + ", " + Coloured(fmt::format("{} dropped ({})", total, fmt::join(reasons, ", ")), Colour::kRed);
}

std::string RefusalLine(const Json& refusal) {
  std::string line;
  if (Whole(refusal, "line") > 0)
    line += fmt::format("line {}, column {}, ", Whole(refusal, "line"), Whole(refusal, "column"));
  if (const std::string key = Text(refusal, "key"); !key.empty()) line += "\"" + key + "\": ";
  return line + Text(refusal, "message");
}

// The limits of a job, and how much of each is used.
std::string LimitsLine(const Json& status) {
  const Json& limits = Part(status, "limits");
  std::vector<std::string> parts;
  if (const int64_t max = Whole(limits, "bytes_max"); max > 0) {
    const std::string part = fmt::format("{} of {} on disk", base::ByteCountText(Count(limits, "bytes_used")),
                                         base::ByteCountText(static_cast<uint64_t>(max)));
    parts.push_back(IsTrue(limits, "bytes_used_up") ? Coloured(part + ", used up", Colour::kRed) : part);
  }
  if (const int64_t max = Whole(limits, "rows_per_step_max"); max > 0)
    parts.push_back(fmt::format("{} rows per step", max));
  if (const int64_t max = Whole(limits, "queue_bytes_max"); max > 0)
    parts.push_back(base::ByteCountText(static_cast<uint64_t>(max)) + " of queues");
  if (Member(limits, "formats").is_array()) parts.push_back("formats " + base::Joined(Texts(limits, "formats"), "/"));
  if (const std::string root = Text(limits, "output_root"); !root.empty())
    parts.push_back("output restricted to " + root);
  return base::Joined(parts, ", ");
}

// The cost of measuring, the most expensive kinds first.
std::string MeasuringLine(const Json& cost) {
  if (Whole(cost, "collected") <= 0) return "";
  std::vector<std::pair<double, std::string>> parts;
  for (const auto& [name, seconds] : Part(cost, "parts").items())
    if (seconds.is_number()) parts.emplace_back(-seconds.get<double>(), base::Printable(name));
  std::sort(parts.begin(), parts.end());
  const double total = Number(cost, "seconds");
  std::string line = StepTimeText(total / static_cast<double>(Whole(cost, "collected"))) + " per collected step";
  const double percent = Number(cost, "percent", -1);
  if (percent >= 0) line += fmt::format(", {:.3g} % of the training time", percent);
  for (size_t i = 0; i < parts.size() && i < 3 && total > 0; ++i)
    line += fmt::format("{}{} {:.0f} %", i == 0 ? "; of that " : ", ", parts[i].second, -100 * parts[i].first / total);
  const double device = Number(cost, "device_seconds");
  if (device > 0 && total > 0) line += fmt::format("; {:.0f} % on devices", 100 * device / total);
  return line;
}

std::string BudgetLine(const Json& budget) {
  const double percent = Number(budget, "percent", -1), spent = Number(budget, "spent_percent", -1);
  if (percent < 0) return "";
  std::string line = fmt::format("{} % of the training time", percent);
  if (spent >= 0) {
    const std::string taken = fmt::format("{:.3g} % used recently", spent);
    line += ", " + (spent > percent ? Coloured(taken, Colour::kYellow) : taken);
  }
  if (const int64_t factor = Whole(budget, "interval_factor"); factor > 1)
    line += fmt::format(", {} times as long an interval as in the config", factor);
  if (const std::vector<std::string> left_out = Texts(budget, "left_out"); !left_out.empty())
    line += ", without " + base::Joined(left_out, ", ");
  return IsTrue(budget, "acting")
             ? line
             : line + "; " + Coloured("report only", Colour::kYellow) + ": " + Text(budget, "reason");
}

class StatusScreen {
 public:
  // Without a value the line is left out.
  void Line(const char* name, const std::string& value) {
    if (!value.empty()) text_ += fmt::format("{:<12}{}\n", name, value);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string PsText(const std::vector<control_socket::FoundJob>& jobs) {
  std::vector<std::vector<Cell>> rows = {HeadingRow({"JOB", "RANK", "STATE", "STEP", "PLAN", "COLLECTED", "CONFIG"})};
  for (const JobGroup& group : GroupByRun(jobs)) {
    const bool is_ranked = group.jobs.size() > 1;
    if (is_ranked)
      rows.push_back({{"run " + base::Printable(group.run_id.substr(0, 8)), Colour::kBold},
                      {fmt::format("{}/{} ranks", group.jobs.size(), group.world_size)},
                      {},
                      {},
                      {},
                      {},
                      {}});
    for (const control_socket::FoundJob& job : group.jobs) {
      rows.push_back(RowOf(job));
      if (is_ranked) rows.back().front().text.insert(0, "  ");
    }
  }
  return TableText(rows);
}

std::string JobLine(const std::string& name, const Json& status) {
  return fmt::format("{}, rank {} of {}, run {}, up {}", name, Whole(status, "rank"), Whole(status, "world_size"),
                     Text(status, "run_id").substr(0, 8), DurationText(Number(status, "uptime_seconds")));
}

std::string PlainStateLine(const Json& status) {
  return Text(status, "state") + ProgressText(status);
}

std::string CostLine(const Json& status) {
  std::string line = "step " + StepText(status);
  if (const int64_t rows = Whole(Part(status, "plan"), "rows_per_step"); rows > 0)
    line += fmt::format("; {} rows per collected step", rows);
  const Json& ledger = Part(status, "ledger");
  if (Whole(ledger, "produced") <= 0) return line;
  return line + fmt::format("; before: {} rows, measuring took {:.3f} s", Whole(ledger, "produced"),
                            Number(status, "measuring_seconds"));
}

std::string StatusText(const std::string& name, const Json& status) {
  StatusScreen screen;
  screen.Line("job", JobLine(name, status));
  screen.Line("state", StateLine(status));
  screen.Line("step", StepText(status));
  const std::string hash = Text(status, "file_sha256");
  screen.Line("config", Text(status, "config_path") +
                            (hash.empty() ? ", not read yet" : ", sha256 " + hash.substr(0, kHashShown)) +
                            (IsTrue(status, "dynamic") ? "" : ", read once: the mode is static"));
  screen.Line("drift", IsTrue(status, "drift") ? Coloured(Text(status, "drift_reason"), Colour::kYellow) : "");
  screen.Line("not begun", Coloured(Text(status, "not_begun"), Colour::kYellow));
  if (const Json& refusal = Part(status, "refusal"); !refusal.empty())
    screen.Line("refused", Coloured(RefusalLine(refusal), Colour::kRed));
  screen.Line("fault", Coloured(Text(status, "fault"), Colour::kRed));
  screen.Line("write-back", Text(status, "write_back"));
  screen.Line("output", Text(status, "output_dir"));
  if (const Json& ledger = Part(status, "ledger"); Whole(ledger, "produced") > 0)
    screen.Line("rows",
                RowsLine(ledger) + fmt::format("; measuring took {:.3f} s", Number(status, "measuring_seconds")));
  screen.Line("cost", MeasuringLine(Part(status, "cost")));
  screen.Line("budget", BudgetLine(Part(status, "budget")));
  if (Whole(status, "decision_timeouts") > 0)
    screen.Line("decisions", fmt::format("{} waits, {} timeouts, {:.3f} s in total", Whole(status, "decision_waits"),
                                         Whole(status, "decision_timeouts"), Number(status, "decision_wait_seconds")));
  screen.Line("tcp", Text(status, "tcp_address"));
  screen.Line("limits", LimitsLine(status));
  screen.Line("watch", Text(status, "watch_mode"));
  return std::move(screen).text();
}

std::string EventLine(const std::string& name, const Json& event) {
  if (name == "gap") return fmt::format("{:>12}  {} events are no longer kept", "", Whole(event, "missed"));
  std::string line = fmt::format("{:10.3f} s  ", Number(event, "t"));
  const bool is_bad = name == "refused" || name == "degraded" || name == "aborted" || name == "unreadable";
  line += Coloured(fmt::format("{:<10}", base::Printable(name)), is_bad ? Colour::kRed : Colour::kPlain);
  if (const int64_t plan = Whole(event, "plan"); plan > 0) line += fmt::format("  plan {}", plan);
  if (const int64_t step = Whole(event, "step"); step >= 0) line += fmt::format("  step {}", step);
  if (const int64_t collected = Whole(event, "collected_steps"); collected >= 0)
    line += fmt::format("  {} collected", collected);
  if (const Json& ledger = Part(event, "ledger"); !ledger.empty()) line += "  " + RowsLine(ledger);
  if (const std::string message = RefusalLine(event); !message.empty()) line += "  " + message;
  return line;
}

bool IsDegraded(const Json& status) {
  return Text(status, "state") == "FAILED" || !Text(status, "fault").empty() || !Part(status, "refusal").empty();
}

}  // namespace stepwatch::cli
