// How a run used its time and its machines within a window: a report, computed from its series and incidents.
//
// Pure: values in, values out. docs/use/performance.md defines each number. A number that was never reported is absent,
// never zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/performance/fit.h"
#include "operations/performance/schedule.h"
#include "operations/runs/series.h"
#include "operations/runs/snapshot.h"
#include "operations/vocabulary/incident.h"

namespace stepwatch::operations {

using SeriesByName = std::map<std::string, std::vector<SeriesPoint>, std::less<>>;

// The score of an earlier tool: 0.6 * utilisation + 0.4 * 100 * min(samples per second / reference, 1).
struct LegacySettings {
  double samples_per_second = 100;
};

struct PerformanceInput {
  RunSnapshot run;
  SeriesByName series;
  std::vector<Incident> incidents;  // the last state of each
  double now = 0;                   // wall clock
  double window_seconds = 86400;
  LegacySettings legacy;
};

struct Interruption {
  double from_t = 0;
  double until_t = 0;
  double seconds = 0;
  int64_t count = 1;          // more than one: of a long run, merged
  std::string cause;          // start, restart, init, eval, checkpoint, pause, stall, repeated
  std::string incident_kind;  // of an incident at that time; empty: none
  std::string incident;       // its id
};

struct Distribution {
  std::optional<double> p5, p50, p95, p99, max, mean;
  std::optional<double> mean_by_time;  // of the step in which a random moment falls
  int64_t samples = 0;
  int64_t values = 0;  // which the samples stand for
};

struct Trend {
  std::string series;
  std::string over;            // "tokens", or "steps" if no tokens are reported
  std::optional<Slope> slope;  // per unit of the natural logarithm
  std::string verdict;         // falling, flat, rising
  std::optional<double> first, last, best;
  int64_t nonfinite = 0;
};

struct Evaluation {
  std::string name;
  int64_t count = 0;
  double last = 0;
  int64_t last_step = 0;
  double best = 0;
  int64_t best_step = 0;
  std::string better;  // lower, higher, unknown
  bool is_regression = false;
};

struct Straggler {
  int64_t rank = 0;
  double step_seconds = 0;
  double ratio = 0;  // to the median rank
};

struct PlotPoint {
  double x = 0, low = 0, middle = 0, high = 0;
};
struct Plot {
  std::string name;
  std::string unit;
  std::string x;  // "step", or "time": seconds since 1970
  std::vector<PlotPoint> points;
};

struct PerformanceReport {
  std::string run;
  double from_t = 0;
  double until_t = 0;
  double seconds = 0;
  std::optional<int64_t> step;

  int64_t steps_counted = 0;
  Distribution step_seconds;
  std::optional<double> steps_per_second, tokens_per_second, samples_per_second, mfu;
  std::optional<double> goodput;
  double counted_seconds = 0;
  std::map<std::string, double> lost_seconds;  // by cause
  double other_seconds = 0;                    // not watched, or not over yet
  std::vector<Interruption> interruptions;
  int64_t interruptions_left_out = 0;

  std::optional<double> exposed_communication;  // share of a step
  std::vector<std::pair<std::string, double>> parts;
  std::optional<double> checkpoint_seconds_mean, checkpoint_share, checkpoint_bytes;
  std::vector<Straggler> stragglers;
  std::optional<double> gpu_utilization, gpu_utilization_low;  // percent
  std::optional<double> allocated_bytes, reserved_bytes, fragmentation, alloc_retries, host_memory;

  std::vector<Trend> losses;
  std::optional<double> generalisation_gap;
  Distribution grad_norm;
  std::optional<double> clip_share;
  std::optional<Schedule> schedule;
  std::vector<Evaluation> evaluations;
  std::vector<std::string> findings;
  std::optional<double> legacy_score;
  std::string legacy_rating;
  std::vector<Plot> plots;
};

// True if the report reads the series.
bool IsOfReport(std::string_view series);
PerformanceReport ReportOf(const PerformanceInput& input);
std::string_view LegacyRating(double score);

}  // namespace stepwatch::operations
