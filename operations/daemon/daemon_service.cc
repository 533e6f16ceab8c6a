#include "operations/daemon/daemon_service.h"

#include <set>

#include "operations/daemon/log.h"

namespace stepwatch::operations {
namespace {

// Reads on the thread of the store. Without an answer, or with an error, `then` gets an empty value.
template <class Value, class Read, class Then>
void ReadStore(StoreQueue* queue, Read read, Then then) {
  const auto ask = [read = std::move(read), then](Store& store) -> StoreQueue::Answer {
    Result<Value> result = read(store);
    return [then, value = result.ok() ? std::move(result).value() : Value()] { then(value); };
  };
  queue->Ask(ask, [then] { then({}); });
}

}  // namespace

bool DaemonService::IsBehind() const {
  return parts_.tick->delay() > kBehindSeconds || parts_.lines->waiting() > kLinesWaitingMax;
}

void DaemonService::CountLeftOut() {
  ++requests_left_out_;
  parts_.losses->Write("too many requests with large bodies at a time: some are answered with status 503");
}

void DaemonService::SeriesNames(const std::string& run, std::function<void(std::vector<std::string>)> then) {
  const auto merge = [seen = parts_.lines->observer().SeriesNames(run), then](const std::vector<std::string>& stored) {
    std::set<std::string> names(seen.begin(), seen.end());
    names.insert(stored.begin(), stored.end());
    then({names.begin(), names.end()});
  };
  ReadStore<std::vector<std::string>>(
      parts_.store, [run](Store& store) { return store.SeriesNames(run); }, merge);
}

// The store has the data from before this process began to watch.
void DaemonService::SeriesOf(const std::string& run, const std::string& name,
                             std::function<void(std::vector<SeriesPoint>)> then) {
  const auto merge = [seen = parts_.lines->observer().SeriesOf(run, name), then](std::vector<SeriesPoint> points) {
    if (!seen.empty())
      std::erase_if(points, [&](const SeriesPoint& point) { return point.step_first >= seen.front().step_first; });
    points.insert(points.end(), seen.begin(), seen.end());
    then(std::move(points));
  };
  ReadStore<std::vector<SeriesPoint>>(
      parts_.store, [run, name](Store& store) { return store.SeriesOf(run, name); }, merge);
}

void DaemonService::ChangesOf(const std::string& incident, std::function<void(std::vector<StoredChange>)> then) {
  ReadStore<std::vector<StoredChange>>(
      parts_.store, [incident](Store& store) { return store.ChangesOf(incident); }, std::move(then));
}

DaemonCounts DaemonService::Counts() const {
  const Observer& observer = parts_.lines->observer();
  DaemonCounts counts;
  counts.uptime_seconds = look_at_clocks_().running - started_;
  for (const RunSnapshot& run : observer.Runs()) ++counts.runs[StateOf(run)];
  for (const StoredIncident& each : parts_.ledger->registry().Open())
    ++counts.incidents_open[std::string(NameOf(each.incident.kind))];
  counts.incidents_opened = parts_.ledger->opened();
  // The first incident of a kind is an increase, too.
  for (size_t i = 0; i < kIncidentKinds; ++i)
    (void)counts.incidents_opened[{static_cast<IncidentKind>(i), SeverityOf(static_cast<IncidentKind>(i))}];
  counts.lines_taken = parts_.lines->taken();
  counts.lines_refused = lines_refused_;
  counts.lines_dropped = observer.lines_dropped();
  counts.series_halved = observer.series_halved();
  counts.jobs_left_out = parts_.jobs->left_out();
  counts.requests_left_out = requests_left_out_;
  const StoreQueue::Counts store = parts_.store->counts();
  counts.lines_never_stored = store.lines_dropped;
  counts.changes_never_stored = store.changes_dropped;
  counts.store_changes_lost = store.changes_lost;
  counts.store_set_aside = store.set_aside;
  counts.log_lines_dropped = parts_.log->lines_dropped();
  counts.store_waiting_bytes = static_cast<int64_t>(store.waiting_bytes);
  counts.store_bytes = store.bytes;
  counts.store_in_trouble = store.in_trouble;
  counts.loop_delay_seconds = parts_.tick->delay_max();
  for (const auto& [receiver, each] : parts_.courier->Counts())
    counts.deliveries[receiver] = {each.sent, each.failed, each.dead, each.waiting, each.digested};
  const Upstream::Counts upstream = parts_.keeper->counts();
  counts.upstream_waiting_bytes = upstream.waiting_bytes;
  counts.upstream_dropped_bytes = upstream.dropped_bytes;
  return counts;
}

Status DaemonService::Ready() const {
  if (trouble_.empty()) return Status();
  return Status(StatusCode::kUnavailable, trouble_);
}

}  // namespace stepwatch::operations
