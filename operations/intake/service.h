// The interface of stepwatchd for its intake. All of it on the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/intake/deliveries.h"
#include "operations/intake/incident_registry.h"
#include "operations/intake/log_posts.h"
#include "operations/logs/log_events.h"
#include "operations/logs/log_file.h"
#include "operations/runs/series.h"
#include "operations/runs/snapshot.h"
#include "operations/vocabulary/line.h"
#include "operations/vocabulary/names.h"
#include "src/http/metric_family.h"
#include "src/http/metrics_format.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// Messages of one receiver.
struct DeliveryCounts {
  int64_t sent = 0;
  int64_t failed = 0;
  int64_t dead = 0;
  int64_t waiting = 0;
  int64_t digested = 0;
};

// Counts of stepwatchd's own work.
struct DaemonCounts {
  double uptime_seconds = 0;
  std::map<std::string, int64_t> runs;            // by state
  std::map<std::string, int64_t> incidents_open;  // by kind
  std::map<std::pair<IncidentKind, Severity>, int64_t> incidents_opened;
  int64_t lines_taken = 0;
  int64_t lines_refused = 0;
  int64_t lines_dropped = 0;         // for lack of room: beyond the limit of runs or ranks
  int64_t series_halved = 0;         // likewise, how often series of a run
  int64_t jobs_left_out = 0;         // likewise, data of a job
  int64_t requests_left_out = 0;     // likewise, requests with a large body
  int64_t lines_never_stored = 0;    // dropped while the disk was full
  int64_t changes_never_stored = 0;  // of incidents, likewise
  int64_t store_changes_lost = 0;    // of incidents, that were stored and have disappeared
  int64_t store_set_aside = 0;       // number of times that damaged files of the store were set aside
  int64_t log_lines_dropped = 0;
  int64_t store_waiting_bytes = 0;  // lines that wait for the disk
  int64_t store_bytes = 0;
  bool store_in_trouble = false;
  double loop_delay_seconds = 0;  // the longest of the last minute
  int64_t upstream_waiting_bytes = 0;
  int64_t upstream_dropped_bytes = 0;
  std::map<std::string, DeliveryCounts> deliveries;  // by receiver
};

std::vector<http::MetricFamily> DaemonFamilies(const DaemonCounts& counts);

class Service {
 public:
  virtual ~Service() = default;

  // Runs a small piece of long work in a turn of its own, after other waiting pieces.
  virtual void Later(std::function<void()> work) = 0;
  // The present, in seconds of the wall clock.
  virtual double t() const = 0;
  // Processes lines in their order. `then` is called when the incidents that they opened are safe in the store.
  virtual void Take(std::vector<Line> lines, std::function<void()> then) = 0;
  // True: too many lines wait, and no more are accepted for some seconds.
  virtual bool IsBehind() const = 0;
  virtual void CountRefused(int64_t lines) = 0;
  // A request was rejected because others use the room.
  virtual void CountLeftOut() {}

  virtual std::vector<RunSnapshot> Runs() const = 0;
  virtual std::optional<RunSnapshot> Run(std::string_view id) const = 0;
  // Summaries, as JSON objects, of runs that have ended and are only in the store.
  virtual std::vector<std::string> RunsOfStore() const = 0;
  virtual std::optional<std::string> RunOfStore(std::string_view id) const = 0;
  virtual void SeriesNames(const std::string& run, std::function<void(std::vector<std::string>)> then) = 0;
  virtual void SeriesOf(const std::string& run, const std::string& name,
                        std::function<void(std::vector<SeriesPoint>)> then) = 0;

  // Null: it keeps no records of logs.
  virtual const LogEvents* log_events() const { return nullptr; }
  // The files on this machine that are followed for the run.
  virtual std::vector<LogFile> LogFilesOf(const std::string& /*run*/) const { return {}; }

  virtual IncidentRegistry& incidents() = 0;
  virtual void ChangesOf(const std::string& incident, std::function<void(std::vector<StoredChange>)> then) = 0;
  // False: unknown incident. `then` is called when the change is safe in the store.
  virtual bool Acknowledge(const std::string& incident, const Acknowledgement& acknowledgement,
                           std::function<void()> then) = 0;
  // False: there are too many.
  virtual bool AddSilence(const Silence& silence, std::function<void()> then) = 0;
  virtual bool RemoveSilence(const std::string& id, std::function<void()> then) = 0;

  // Null: no messages are sent.
  virtual Deliveries* deliveries() { return nullptr; }
  // Null: no logs are read.
  virtual LogPosts* log_posts() { return nullptr; }
  // The page of /metrics.
  virtual void Metrics(http::MetricsFormat format, std::function<void(std::string page)> then) = 0;
  // Targets of scrapes as JSON: this stepwatchd, the jobs that have TCP, or both.
  virtual void Targets(bool with_own, bool with_jobs, std::function<void(std::string json)> then) = 0;
  // Ok, or the reason why stepwatchd is not ready.
  virtual Status Ready() const = 0;
};

}  // namespace stepwatch::operations
