// Records of logs become lines that the detectors watch, and go to the outputs.
//
// On the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operations/logs/log_events.h"
#include "operations/logs/log_lines.h"
#include "operations/logs/outputs/outputs.h"
#include "operations/vocabulary/line.h"
#include "src/http/metric_family.h"
#include "src/logs/record.h"

namespace stepwatch::operations {

struct RunRecord {
  logs::Record record;
  RecordOrigin origin;
};

class LogRecords {
 public:
  struct Callbacks {
    // Processes lines; `then`: they and the incidents that they opened are in the store, or cannot be stored.
    std::function<void(std::vector<Line> lines, std::function<void()> then)> take;
    // See LogLinesOptions.
    std::function<bool(const std::string& run)> is_monitored;
    std::function<bool(const std::string& run)> is_open;
    std::function<std::optional<int64_t>(const std::string& run, int64_t rank)> known_step;
  };

  explicit LogRecords(Callbacks callbacks);
  LogRecords(const LogRecords&) = delete;
  LogRecords& operator=(const LogRecords&) = delete;

  // `then`: the store has their lines and incidents, and a kill of this process no longer loses them for an output, so
  // that the source may forget them. It may be called during this call.
  void Take(std::vector<RunRecord> records, std::function<void()> then);
  // No process has the log files of the run open for writing any more.
  void EndOfWriters(const std::string& run);
  // About once a second; `now` by the wall clock, `running` by a clock that is never set.
  void Tick(double now, double running);
  // Null: none. The previous ones are destroyed, which writes what waits.
  void SetOutputs(std::unique_ptr<outputs::Outputs> outputs);

  int64_t taken() const { return taken_; }
  LogEvents& events() { return events_; }
  const LogEvents& events() const { return events_; }
  std::vector<http::MetricFamily> Families() const;

 private:
  struct Waiting {
    int64_t taken = 0;  // records up to and with this batch
    bool is_stored = false;
    std::function<void()> then;
  };

  void Release();

  const Callbacks callbacks_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  LogLines lines_;
  LogEvents events_;
  std::unique_ptr<outputs::Outputs> outputs_;
  int64_t taken_ = 0;
  int64_t taken_before_outputs_ = 0;  // by previous outputs
  std::deque<std::shared_ptr<Waiting>> waiting_;
  double now_ = 0;  // of the last tick
};

}  // namespace stepwatch::operations
