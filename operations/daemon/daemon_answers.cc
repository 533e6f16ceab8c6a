// The daemon's answers to requests at the intake.
#include <algorithm>
#include <set>
#include <utility>

#include "operations/daemon/daemon.h"
#include "operations/daemon/log.h"
#include "operations/intake/json_answers.h"

namespace stepwatch::operations {

std::vector<std::string> Daemon::RunsOfStore() const {
  std::vector<std::string> summaries;
  for (const auto& [id, run] : ended_)
    if (!observer_.Knows(id)) summaries.push_back(run.summary);
  return summaries;
}

std::optional<std::string> Daemon::RunOfStore(std::string_view id) const {
  const auto found = ended_.find(id);
  if (found == ended_.end()) return std::nullopt;
  return found->second.summary;
}

void Daemon::SeriesNames(const std::string& run, std::function<void(std::vector<std::string>)> then) {
  const std::vector<std::string> seen = observer_.SeriesNames(run);
  const auto merge = [seen, then](const std::vector<std::string>& stored) {
    std::set<std::string> names(seen.begin(), seen.end());
    names.insert(stored.begin(), stored.end());
    then({names.begin(), names.end()});
  };
  const auto ask = [run, merge](Store& store) -> StoreQueue::Answer {
    Result<std::vector<std::string>> stored = store.SeriesNames(run);
    return [merge, names = stored.ok() ? std::move(stored).value() : std::vector<std::string>()] { merge(names); };
  };
  store_->Ask(ask, [merge] { merge({}); });
}

// The store has the data from before this process began to watch.
void Daemon::SeriesOf(const std::string& run, const std::string& name,
                      std::function<void(std::vector<SeriesPoint>)> then) {
  const std::vector<SeriesPoint> seen = observer_.SeriesOf(run, name);
  const auto merge = [seen, then](std::vector<SeriesPoint> points) {
    if (!seen.empty())
      std::erase_if(points, [&](const SeriesPoint& point) { return point.step_first >= seen.front().step_first; });
    points.insert(points.end(), seen.begin(), seen.end());
    then(std::move(points));
  };
  const auto ask = [run, name, merge](Store& store) -> StoreQueue::Answer {
    Result<std::vector<SeriesPoint>> stored = store.SeriesOf(run, name);
    return [merge, points = stored.ok() ? std::move(stored).value() : std::vector<SeriesPoint>()] { merge(points); };
  };
  store_->Ask(ask, [merge] { merge({}); });
}

void Daemon::ChangesOf(const std::string& incident, std::function<void(std::vector<StoredChange>)> then) {
  const auto ask = [incident, then](Store& store) -> StoreQueue::Answer {
    Result<std::vector<StoredChange>> stored = store.ChangesOf(incident);
    return [then, changes = stored.ok() ? std::move(stored).value() : std::vector<StoredChange>()] { then(changes); };
  };
  store_->Ask(ask, [then] { then({}); });
}

bool Daemon::Acknowledge(const std::string& incident, const Acknowledgement& acknowledgement,
                         std::function<void()> then) {
  std::optional<StoredChange> change = incidents_.Acknowledge(incident, acknowledgement);
  if (!change) return false;
  store_->next().changes.push_back(std::move(*change));
  store_->Flush([this, then = std::move(then)] {
    intake_.Wake();
    then();
  });
  return true;
}

bool Daemon::AddSilence(const Silence& silence, std::function<void()> then) {
  if (!incidents_.Add(silence)) return false;
  store_->next().silences.push_back(silence);
  store_->Flush(std::move(then));
  return true;
}

bool Daemon::RemoveSilence(const std::string& id, std::function<void()> then) {
  if (!incidents_.RemoveSilence(id)) return false;
  store_->next().silences_removed.push_back(id);
  store_->Flush(std::move(then));
  return true;
}

DaemonCounts Daemon::Counts() const {
  DaemonCounts counts;
  counts.uptime_seconds = options_.look_at_clocks().running - started_;
  for (const RunSnapshot& run : observer_.Runs()) ++counts.runs[StateOf(run)];
  for (const StoredIncident& each : incidents_.Open()) ++counts.incidents_open[std::string(NameOf(each.incident.kind))];
  counts.lines_taken = lines_taken_;
  counts.lines_refused = lines_refused_;
  counts.lines_dropped = observer_.lines_dropped();
  counts.series_halved = observer_.series_halved();
  counts.jobs_left_out = discovery_ ? discovery_->left_out() : 0;
  counts.requests_left_out = requests_left_out_;
  const StoreQueue::Counts store = store_->counts();
  counts.lines_never_stored = store.lines_dropped;
  counts.changes_never_stored = store.changes_dropped;
  counts.store_changes_lost = store.changes_lost;
  counts.store_set_aside = store.set_aside;
  counts.log_lines_dropped = log_.lines_dropped();
  counts.store_waiting_bytes = static_cast<int64_t>(store.waiting_bytes);
  counts.store_bytes = store.bytes;
  counts.store_in_trouble = store.in_trouble;
  counts.loop_delay_seconds = loop_delay_max_;
  if (!upstream_) return counts;
  counts.upstream_waiting_bytes = upstream_->counts().waiting_bytes;
  counts.upstream_dropped_bytes = upstream_->counts().dropped_bytes;
  return counts;
}

void Daemon::JobMetrics(std::function<void(std::string page)> then) {
  if (discovery_) return discovery_->FetchMetrics(std::move(then));
  then({});
}

Status Daemon::Ready() const {
  if (store_trouble_.empty()) return Status();
  return Status(StatusCode::kUnavailable, store_trouble_);
}

}  // namespace stepwatch::operations
