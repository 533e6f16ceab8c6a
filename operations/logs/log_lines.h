// Records of logs as lines of runs, so that every detector watches a job by its log alone. Pure.
//
// A finished step becomes a beat, an exception an event, an anomaly an event that the detectors know. A run begins with
// its first record that is not late, and ends with an exception, or a signal, that silence follows, or when no process
// writes its files any more. Late records set the position of a run, and neither its pace nor its silence: they wait
// for a record that is not late.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/vocabulary/line.h"
#include "src/logs/record.h"

namespace stepwatch::operations {

struct LogLinesOptions {
  // A run that reports its beats itself gets only the events of its log.
  std::function<bool(const std::string& run)> is_monitored = {};
  // The run is known, such as from before a restart of stepwatchd, and has not ended.
  std::function<bool(const std::string& run)> is_open = {};
  // The last step of a rank that is known already; nullopt: none.
  std::function<std::optional<int64_t>(const std::string& run, int64_t rank)> known_step = {};
  double end_seconds = 15;      // of silence after a failure
  double lost_seconds = 21600;  // of silence without one
};

// Facts about a record that are not in its text.
struct RecordOrigin {
  std::string run;
  std::optional<int64_t> rank;
  bool is_late = false;
  bool may_repeat = false;
};

// Names of the catalogue of anomalies that have a meaning of their own here. A test compares them with the catalogue.
std::vector<std::string_view> AnomaliesOfLogLines();

class LogLines {
 public:
  static constexpr size_t kRunsMax = 1024;
  static constexpr size_t kRanksMax = 65536;  // of a run

  explicit LogLines(LogLinesOptions options) : options_(std::move(options)) {}

  // Appends the lines that follow from the record. A run without a name is ignored.
  void Take(const logs::Record& record, const RecordOrigin& origin, std::vector<Line>* lines);
  // Appends the ends of runs. Call it about once a second.
  void Advance(double now, std::vector<Line>* lines);
  // No process has the run's files open for writing any more.
  void EndOfWriters(const std::string& run, double now, std::vector<Line>* lines);
  int64_t runs_left_out() const { return runs_left_out_; }

 private:
  struct Rank {
    std::optional<int64_t> step;
    std::optional<Beat> late;  // its position: waits for a record that is not late
  };
  struct Run {
    std::map<int64_t, Rank> ranks;
    bool is_begun = false;
    bool is_ended = false;
    double line_t = 0;              // of the last record
    double failed_t = 0;            // 0: it has not failed since its last step
    std::optional<int64_t> signal;  // that ended it
  };

  void Begin(const std::string& name, Run* run, const logs::Record& record, std::vector<Line>* lines);
  void TakeProgress(const std::string& name, Run* run, int64_t rank, const logs::Record& record,
                    const RecordOrigin& origin, std::vector<Line>* lines);
  // Whether the record reports a failure.
  static bool AddFailures(const std::string& name, std::optional<int64_t> rank, const logs::Record& record, Run* run,
                          std::vector<Line>* lines);
  static void End(const std::string& name, Run* run, EndReason reason, double now, std::vector<Line>* lines);

  const LogLinesOptions options_;
  std::map<std::string, Run> runs_;
  int64_t runs_left_out_ = 0;
};

}  // namespace stepwatch::operations
