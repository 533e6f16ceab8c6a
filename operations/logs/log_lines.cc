#include "operations/logs/log_lines.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "operations/trace/parse_line.h"
#include "src/base/parse_number.h"

namespace stepwatch::operations {
namespace {

using vocabulary::Severity;

constexpr double kCaughtUpSeconds = 5;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::array<std::string_view, 5> kMemory = {"device_oom", "host_oom_kill", "cgroup_oom", "pinned_alloc_fail",
                                                     "host_alloc_fail"};
constexpr std::array<std::string_view, 3> kCancelled = {"preempted", "time_limit", "user_cancel"};
constexpr std::array<std::string_view, 1> kKilled = {"killed_unknown"};
constexpr std::array<std::string_view, 2> kNonfinite = {"loss_nonfinite", "grad_nonfinite"};

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Cut(std::string_view text, size_t size) {
  return std::string(text.substr(0, size));
}

Beat BeatOf(const logs::Progress& progress) {
  Beat beat;
  beat.is_of_log = true;
  beat.step = progress.step;
  beat.phase = progress.is_evaluation ? RunPhase::kEval : RunPhase::kTrain;
  for (const auto& [key, value] : progress.numbers) {
    if (std::optional<double>* member = NumberNamed(key, &beat))
      *member = value;
    else if (beat.reported.size() < kReportedMax)
      beat.reported.emplace_back(Cut(key, kNameBytesMax), value);
  }
  return beat;
}

std::optional<double> FactNumber(const logs::Anomaly& anomaly, std::string_view key) {
  for (const auto& [name, value] : anomaly.facts)
    if (name == key) return base::ParseNumber<double>(value);
  return std::nullopt;
}

std::string Fact(const logs::Anomaly& anomaly, std::initializer_list<std::string_view> keys) {
  for (const auto& [name, value] : anomaly.facts)
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) return value;
  return "";
}

// The type of the exception that the detectors know for an anomaly.
std::string TypeOf(const logs::Anomaly& anomaly) {
  return IsOneOf(anomaly.name, kMemory) ? "OutOfMemoryError" : std::string(anomaly.name);
}

}  // namespace

std::vector<std::string_view> AnomaliesOfLogLines() {
  std::vector<std::string_view> names;
  for (const std::span<const std::string_view> each :
       {std::span<const std::string_view>(kMemory), std::span<const std::string_view>(kCancelled),
        std::span<const std::string_view>(kKilled), std::span<const std::string_view>(kNonfinite)})
    names.insert(names.end(), each.begin(), each.end());
  return names;
}

void LogLines::Begin(const std::string& name, Run* run, const logs::Record& record, std::vector<Line>* lines) {
  if (run->is_begun && !run->is_ended) return;
  run->is_begun = true;
  run->is_ended = false;
  run->failed_t = 0;
  run->signal.reset();
  StartEvent start;
  start.host = record.host;
  lines->push_back({record.observed_t, name, std::nullopt, Event(start)});
  for (auto& [rank, state] : run->ranks)
    if (state.late) lines->push_back({record.observed_t, name, rank, *std::exchange(state.late, std::nullopt)});
}

void LogLines::TakeProgress(const std::string& name, Run* run, int64_t rank, const logs::Record& record,
                            const RecordOrigin& origin, std::vector<Line>* lines) {
  const logs::Progress& progress = *record.progress;
  if (!run->ranks.contains(rank) && run->ranks.size() >= kRanksMax) return;
  Rank& state = run->ranks[rank];
  if (origin.may_repeat && progress.step && options_.known_step) {
    const std::optional<int64_t> known = options_.known_step(name, rank);
    if (known && *progress.step <= *known) return;
  }
  if (progress.step) state.step = progress.step;
  Beat beat = BeatOf(progress);
  if (!beat.step) beat.step = state.step;
  if (origin.is_late) {
    if (progress.is_evaluation) return;
    // Its numbers are of the past.
    state.late.emplace();
    state.late->is_of_log = true;
    state.late->step = beat.step;
    state.late->phase = beat.phase;
    return;
  }
  state.late.reset();
  lines->push_back({record.observed_t, name, rank, beat});
  if (!progress.is_evaluation) {
    run->failed_t = 0;
    return;
  }
  // The line is written when the evaluation has ended.
  Beat after;
  after.is_of_log = true;
  after.step = beat.step;
  after.phase = RunPhase::kTrain;
  lines->push_back({record.observed_t, name, rank, after});
}

bool LogLines::AddFailures(const std::string& name, std::optional<int64_t> rank, const logs::Record& record, Run* run,
                           std::vector<Line>* lines) {
  const double t = record.observed_t;
  bool has_failed = false;
  const bool is_notice = std::any_of(record.anomalies.begin(), record.anomalies.end(),
                                     [](const auto& each) { return each.role == logs::Role::kNotice; });
  if (record.exception && !is_notice) {
    const logs::Exception& exception = *record.exception;
    lines->push_back({t, name, rank,
                      Event(ExceptionEvent{Cut(exception.type, kNameBytesMax), Cut(exception.message, kMessageBytesMax),
                                           Cut(exception.stack, kStackBytesMax)})});
    has_failed = true;
  }
  for (const logs::Anomaly& anomaly : record.anomalies) {
    if (anomaly.role == logs::Role::kNotice) continue;
    const std::optional<int64_t> at = anomaly.culprit_rank ? anomaly.culprit_rank : rank;
    if (const std::optional<double> xid = FactNumber(anomaly, "xid")) {
      const std::string gpu = Fact(anomaly, {"uuid", "pci", "gpu"});
      lines->push_back({t, name, at, Event(GpuEvent{gpu.empty() ? "of a log" : Cut(gpu, kNameBytesMax), "xid", *xid})});
      continue;
    }
    if (IsOneOf(anomaly.name, kCancelled)) {
      lines->push_back({t, name, std::nullopt, Event(SignalEvent{SIGTERM})});
      run->signal = SIGTERM;
      has_failed = true;
      continue;
    }
    if (IsOneOf(anomaly.name, kKilled)) {
      lines->push_back({t, name, at, Event(SignalEvent{SIGKILL})});
      run->signal = SIGKILL;
      has_failed = true;
      continue;
    }
    if (IsOneOf(anomaly.name, kNonfinite)) {
      // A line of progress has the numbers themselves.
      if (record.progress) continue;
      Beat beat;
      beat.is_of_log = true;
      const auto known = run->ranks.find(at.value_or(0));
      if (known != run->ranks.end()) beat.step = known->second.step;
      beat.phase = RunPhase::kTrain;
      (anomaly.name == "loss_nonfinite" ? beat.loss : beat.grad_norm) = kNaN;
      lines->push_back({t, name, at.value_or(0), beat});
      continue;
    }
    // One event for each record: its exception describes the same fault.
    if (record.exception || has_failed || anomaly.severity != Severity::kCritical) continue;
    lines->push_back({t, name, at, Event(ExceptionEvent{TypeOf(anomaly), Cut(record.message, kMessageBytesMax), ""})});
    has_failed = true;
  }
  return has_failed;
}

void LogLines::Take(const logs::Record& record, const RecordOrigin& origin, std::vector<Line>* lines) {
  if (origin.run.empty() || origin.run.size() > kRunBytesMax) return;
  auto found = runs_.find(origin.run);
  if (found == runs_.end()) {
    if (runs_.size() >= kRunsMax) {
      ++runs_left_out_;
      return;
    }
    found = runs_.try_emplace(origin.run).first;
  }
  const std::string& name = found->first;
  Run& run = found->second;
  std::optional<int64_t> rank = record.rank ? record.rank : origin.rank;
  if (rank && (*rank < 0 || *rank > kRankMax)) rank.reset();
  if (options_.is_monitored && options_.is_monitored(name)) {
    run.is_ended = true;  // its end is reported, too
    if (!origin.is_late && !record.exception) (void)AddFailures(name, rank, record, &run, lines);
    return;
  }
  run.line_t = std::max(run.line_t, record.observed_t);
  // The observer has not lost what this object has forgotten.
  if (!run.is_begun && options_.is_open && options_.is_open(name)) run.is_begun = true;
  // A failure in an old log of a run that is not watched yet concerns nobody any more.
  if (origin.is_late && (!run.is_begun || run.is_ended)) {
    if (record.progress) TakeProgress(name, &run, rank.value_or(0), record, origin, lines);
    return;
  }
  std::vector<Line> failures;
  const bool has_failed = AddFailures(name, rank, record, &run, &failures);
  // A run that has ended, or was seen only in the past, begins with a step or a failure.
  if (!origin.is_late && (record.progress || !run.is_ended)) Begin(name, &run, record, lines);
  if (record.progress) TakeProgress(name, &run, rank.value_or(0), record, origin, lines);
  lines->insert(lines->end(), failures.begin(), failures.end());
  if (has_failed) run.failed_t = record.observed_t;
}

void LogLines::End(const std::string& name, Run* run, EndReason reason, double now, std::vector<Line>* lines) {
  run->is_ended = true;
  lines->push_back({now, name, std::nullopt, Event(EndEvent{reason})});
}

void LogLines::Advance(double now, std::vector<Line>* lines) {
  for (auto each = runs_.begin(); each != runs_.end();) {
    Run& run = each->second;
    const double silence = now - run.line_t;
    // No record follows those that were caught up with: the run stands there.
    if (run.is_begun && !run.is_ended && silence > kCaughtUpSeconds)
      for (auto& [rank, state] : run.ranks)
        if (state.late) lines->push_back({now, each->first, rank, *std::exchange(state.late, std::nullopt)});
    if (run.is_begun && !run.is_ended && run.failed_t > 0 && silence > options_.end_seconds)
      End(each->first, &run, run.signal ? EndReason::kSignal : EndReason::kError, now, lines);
    if (run.is_begun && !run.is_ended && silence > options_.lost_seconds)
      End(each->first, &run, EndReason::kLost, now, lines);
    each = silence > options_.lost_seconds ? runs_.erase(each) : std::next(each);
  }
}

void LogLines::EndOfWriters(const std::string& run_name, double now, std::vector<Line>* lines) {
  const auto found = runs_.find(run_name);
  if (found == runs_.end() || !found->second.is_begun || found->second.is_ended) return;
  Run& run = found->second;
  const EndReason failed = run.signal ? EndReason::kSignal : EndReason::kError;
  End(run_name, &run, run.failed_t > 0 ? failed : EndReason::kOk, now, lines);
}

}  // namespace stepwatch::operations
