// The state of one rank of a run, and the changes that a beat makes to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

// The last value of a number of a rank.
struct Gauge {
  bool is_known = false;
  double value = 0;
  int64_t step = -1;             // of `value`
  int64_t finite_step = -1;      // the last step with a finite value
  std::optional<double> before;  // the value before its last change
  int64_t changed_step = -1;     // the time of its last change
  int64_t fresh_step = -1;       // of the last sample that counted as a new measurement
  int64_t refresh_steps = 0;     // between changes, the fewest recently; 0: it has never changed
};

// Times are virtual seconds.
struct RankState {
  int64_t rank = 0;
  double reported_at = 0;  // the last beat
  double report_gap = 0;   // between the last two beats
  int64_t short_gaps = 0;  // in a row, far shorter than usual
  int64_t beats = 0;
  double beat_seconds = 0;  // between beats, smoothed; 0: not yet known
  std::optional<int64_t> step;
  int64_t step_beats = 0;  // beats since then
  double step_at = 0;      // the time of the first report of `step`
  double changed_at = 0;   // the time of the last beat with any change, even if only of the module
  RunPhase phase = RunPhase::kInit;
  double phase_at = 0;
  int64_t phase_beats = 0;      // since `phase_at`
  int64_t odd_phase_beats = 0;  // in a row that report training without a finished step
  int64_t lower_beats = 0;      // in a row with an earlier step: late ones, or the rank has gone back
  int64_t lower_step = -1;
  double lower_at = 0;
  std::string module;
  double module_at = 0;
  bool gone = false;
  double gone_at = 0;
  char process_state = 0;  // 0: not reported
  double process_state_at = 0;
  bool waits = false;  // in a collective
  std::string waits_in;
  std::optional<int64_t> signal;
  double signal_at = 0;
  Gauge loss, grad_norm, lr, tokens, samples, step_seconds, loss_scale;
  std::optional<double> eval_loss;  // the last one of an evaluation, perhaps repeated by later beats

  bool is_stopped() const { return process_state == 'T' || process_state == 't'; }
};

// A number that a beat reports for a step for the first time.
struct Sample {
  double value = 0;
  bool changed = false;  // it differs from the last one: a gauge that is refreshed rarely repeats itself
  bool fresh = false;    // measured again, as far as known: changed, or the same for longer than ever before
};

// The new facts of a beat.
struct BeatFacts {
  const RankState* rank = nullptr;  // after the beat
  double now = 0;
  int64_t step = -1;           // of the beat; the rank's last one if the beat has none
  int64_t advanced = 0;        // steps finished since the previous beats
  double advance_seconds = 0;  // in which they were finished
  bool late = false;           // of an earlier step; it has only samples that are not finite
  bool rewound = false;        // the rank has gone back to an earlier step
  std::optional<Sample> loss, grad_norm, lr, tokens, samples, step_seconds, loss_scale;
  const std::vector<std::pair<std::string, double>>* reported = nullptr;  // other numbers, if the rank has advanced
};

// Applies a beat that was received at `now`.
BeatFacts ApplyBeat(const Beat& beat, double now, RankState* rank);

}  // namespace stepwatch::operations
