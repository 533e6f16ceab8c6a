#include "operations/daemon/state_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "operations/daemon/log.h"
#include "operations/intake/json_answers.h"

namespace stepwatch::operations {

void StateWriter::Restore(const Restored& restored) {
  for (const StoredRun& run : restored.runs) ended_[run.id] = run;
  for (const KnownProcess& each : restored.processes) processes_.try_emplace(KeyOf(each), each);
}

void StateWriter::StartOver() {
  marks_.clear();
  StoreAllSeries();
}

void StateWriter::StoreAgain() {
  Batch& next = store_.next();
  for (const auto& [id, run] : ended_) next.runs.insert_or_assign(id, run);
  for (const auto& [key, process] : processes_) next.processes.insert_or_assign(key, process);
  for (auto& [run, mark] : marks_) mark.stored_t = 0;
  StoreAllSeries();
}

void StateWriter::StoreAllSeries() {
  series_marks_.clear();
  for (auto& [run, mark] : marks_) mark.step = -1;
}

void StateWriter::StoreRuns(double now, size_t runs_max) {
  constexpr double kRefreshSeconds = 60;
  size_t stored_now = 0;
  for (const RunSnapshot& run : observer_.Runs()) {
    RunMark& mark = marks_[run.id];
    std::string state = StateOf(run);
    if (state == mark.state && (run.ended || now - mark.stored_t < kRefreshSeconds)) continue;
    if (stored_now++ == runs_max) break;
    if (state != mark.state && !mark.state.empty())
      log_.Write(LogLevel::kInfo, "run " + run.id + ": " + mark.state + " -> " + state);
    mark.state = std::move(state);
    mark.stored_t = now;
    StoredRun stored{run.id, run.ended, run.heard_t, json::Dump(RunJson(run))};
    if (run.ended)
      ended_.insert_or_assign(run.id, stored);
    else
      ended_.erase(run.id);
    store_.next().runs.insert_or_assign(run.id, std::move(stored));
  }
  ForgetEnded();
}

void StateWriter::ForgetEnded() {
  constexpr size_t kMax = static_cast<size_t>(Restored::kRunsMax);
  if (ended_.size() <= kMax) return;
  std::vector<std::pair<double, std::string>> by_age;
  for (const auto& [id, run] : ended_) by_age.emplace_back(run.heard_t, id);
  const auto kept = by_age.end() - static_cast<std::ptrdiff_t>(kMax);
  std::nth_element(by_age.begin(), kept, by_age.end());
  for (auto each = by_age.begin(); each != kept; ++each) ended_.erase(each->second);
}

void StateWriter::FindSeries() {
  if (!series_due_.empty()) return;
  for (const RunSnapshot& run : observer_.Runs())
    if (run.step && *run.step != std::exchange(marks_[run.id].step, *run.step)) series_due_.push_back(run.id);
}

void StateWriter::StoreSeries(size_t runs_max) {
  for (size_t i = 0; i < runs_max && !series_due_.empty(); ++i) {
    StoreSeriesOf(series_due_.front());
    series_due_.pop_front();
  }
}

void StateWriter::StoreSeriesOf(const std::string& run) {
  for (const std::string& name : observer_.SeriesNames(run)) {
    const std::vector<SeriesPoint> points = observer_.SeriesOf(run, name);
    if (points.empty()) continue;
    const auto mark = series_marks_.find({run, name});
    // The last written point may have grown, or have been merged with the one before it.
    auto first = points.begin();
    if (mark != series_marks_.end()) {
      first = std::upper_bound(points.begin(), points.end(), mark->second,
                               [](int64_t step, const SeriesPoint& point) { return step < point.step_first; });
      if (first != points.begin()) --first;
    }
    series_marks_[{run, name}] = points.back().step_first;
    store_.next().series.push_back({run, name, first->step_first, {first, points.end()}});
  }
}

void StateWriter::StoreProcesses(const std::vector<KnownProcess>& known) {
  constexpr double kRefreshSeconds = 3600;
  std::map<std::string, KnownProcess> by_key;
  for (const KnownProcess& each : known) by_key[KeyOf(each)] = each;
  for (const auto& [key, process] : processes_)
    if (!by_key.contains(key)) store_.next().processes.insert_or_assign(key, std::nullopt);
  for (auto& [key, process] : by_key) {
    const auto stored = processes_.find(key);
    const bool is_same = stored != processes_.end() && stored->second.run == process.run &&
                         stored->second.rank == process.rank && stored->second.own == process.own &&
                         stored->second.uid == process.uid && process.seen_t - stored->second.seen_t < kRefreshSeconds;
    if (is_same)
      process.seen_t = stored->second.seen_t;
    else
      store_.next().processes.insert_or_assign(key, process);
  }
  processes_ = std::move(by_key);
}

void StateWriter::ForgetOld() {
  std::erase_if(marks_, [&](const auto& mark) { return !observer_.Knows(mark.first); });
  std::erase_if(series_marks_, [&](const auto& mark) { return !observer_.Knows(mark.first.first); });
}

std::optional<std::string> StateWriter::Summary(std::string_view run) const {
  const auto found = ended_.find(run);
  if (found == ended_.end()) return std::nullopt;
  return found->second.summary;
}

std::vector<std::string> StateWriter::Summaries() const {
  std::vector<std::string> summaries;
  for (const auto& [id, run] : ended_)
    if (!observer_.Knows(id)) summaries.push_back(run.summary);
  return summaries;
}

std::vector<KnownProcess> StateWriter::Processes() const {
  std::vector<KnownProcess> processes;
  for (const auto& [key, process] : processes_) processes.push_back(process);
  return processes;
}

}  // namespace stepwatch::operations
