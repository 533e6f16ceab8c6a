// Thresholds of the detectors. The defaults are those of README.md.
#pragma once

#include <cstdint>

namespace stepwatch::operations {

struct StuckSettings {
  double silence_seconds_min = 120;      // minimum of every deadline that is based on silence alone
  double standstill_factor = 3;          // of the longest standstill that was followed by progress
  double witness_steps = 3;              // with a second witness: learnt step times …
  double witness_seconds = 5;            // … and seconds
  double odd_rank_seconds = 20;          // one rank is behind, and its peers are alive and stand still
  double start_seconds = 1800;           // before the first steps, no reports
  double start_alive_seconds = 3600;     // before the first steps, ranks report
  double phase_seconds = 1800;           // eval and checkpoint, before one was seen, no reports
  double phase_alive_seconds = 7200;     // likewise, ranks report
  double phase_factor = 5;               // afterwards: this multiple of the longest,
  double phase_seconds_min = 300;        // at least this, no reports,
  double phase_alive_seconds_min = 450;  // at least this, ranks report

  bool operator==(const StuckSettings&) const = default;
};

struct NumericsSettings {
  int64_t samples_min = 16;        // before a loss or a norm is judged
  double spike_ratio = 1.3;        // of the median, for `spike_samples`
  double spike_ratio_at_once = 2;  // of the median, for one sample
  double spike_rise_min = 0.02;    // absolute
  double spike_deviations = 6;     // of the robust deviation
  int64_t spike_samples = 3;
  double divergence_ratio = 1.2;  // of the lowest level
  double divergence_rise_min = 0.02;
  double explosion_ratio = 10;   // of the median
  double collapse_ratio = 0.02;  // of the level
  int64_t collapse_samples = 8;
  int64_t scaler_steps_max = 24;  // steps in a row that a falling loss scale excuses

  bool operator==(const NumericsSettings&) const = default;
};

struct PaceSettings {
  double drop_ratio = 0.8;   // of the frozen baseline
  double block_seconds = 1;  // the pace is measured over this time, and
  int64_t block_steps = 5;   // this many steps
  int64_t baseline_blocks = 240;
  int64_t baseline_blocks_min = 8;
  double straggler_ratio = 1.3;  // of the peers' median
  int64_t straggler_rounds = 8;
  double checkpoint_factor = 1.5;  // of the run's own interval

  bool operator==(const PaceSettings&) const = default;
};

struct Settings {
  StuckSettings stuck;
  NumericsSettings numerics;
  PaceSettings pace;

  bool operator==(const Settings&) const = default;
};

}  // namespace stepwatch::operations
