// The state of a run as values for display. Times are in the observer's clock at the time of observation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operations/runs/run_totals.h"
#include "operations/vocabulary/names.h"

namespace stepwatch::operations {

struct RankSnapshot {
  int64_t rank = 0;
  RunPhase phase = RunPhase::kInit;
  std::optional<int64_t> step;  // the last finished one
  double heard_seconds_ago = 0;
  double step_seconds_ago = 0;  // since the end of the last step
  std::string module;
  bool gone = false;
  char process_state = 0;  // 0: not reported
  std::string waits_in;    // a collective; empty: in none
  std::optional<double> step_seconds;
  WorkValues work;
};

struct RunSnapshot {
  std::string id;
  std::optional<int64_t> world;
  std::vector<std::string> hosts;
  std::string owner, partition;  // by the scheduler; empty: not known
  bool ended = false;
  EndReason end_reason = EndReason::kOk;
  double ended_t = 0;
  bool paused = false;  // by a pause event or by all of its ranks
  RunPhase phase = RunPhase::kInit;
  std::optional<int64_t> step;             // the largest finished one
  std::optional<double> step_t;            // the end of the last step
  std::optional<int64_t> checkpoint_step;  // the last complete one
  std::optional<double> checkpoint_t;
  double started_t = 0;  // the first line
  double heard_t = 0;    // the last one
  int64_t restarts = 0;
  double step_seconds = 0;                             // learnt, of the wall clock; 0: not yet
  std::vector<std::pair<std::string, double>> latest;  // loss, grad_norm, lr, … from the last beats
  std::vector<RankSnapshot> ranks;                     // ascending
  RunNumbers numbers;                                  // with ranks only
};

// "ended", "paused", or the name of the phase.
inline std::string StateOf(const RunSnapshot& run) {
  if (run.ended) return "ended";
  return run.paused ? "paused" : std::string(NameOf(run.phase));
}

}  // namespace stepwatch::operations
