// The ranks that hold up a run that stands still, and the evidence for it.
#pragma once

#include <map>
#include <vector>

#include "operations/runs/run_state.h"

namespace stepwatch::operations {

inline constexpr int64_t kFirstAdvances = 3;  // steps of training after which a run has begun

struct Suspects {
  std::vector<int64_t> ranks;
  const char* witness = "silence";
  bool is_witnessed = false;  // reported by the operating system or the collective library
  bool is_silent = false;     // the rank is silent, and its peers are not
  bool is_odd = false;        // one is silent or behind while its peers are alive
};

// The load of each rank's GPU in the last sample.
class GpuUse {
 public:
  void Add(int64_t rank, double percent, double now) { use_[rank] = {percent, now}; }
  void Clear() { use_.clear(); }
  // The smaller group of idle and busy ranks: GPUs spin in the collective in which most ranks wait for an idle one; or
  // one computes on, and the others are idle.
  std::vector<int64_t> RanksApart(double now) const;

 private:
  struct Use {
    double percent = 0;
    double at = 0;
  };
  std::map<int64_t, Use> use_;
};

Suspects SuspectsOf(const RunState& run, const GpuUse& gpus, double now);

// True if it has not sent a beat for a while.
bool IsSilent(const RunState& run, const RankState& rank, double now);
// Seconds after which a rank counts as silent beside peers that are not.
double LateSeconds(const RunState& run);
// Ranks that wait in a collective.
std::vector<int64_t> RanksWaiting(const RunState& run);

}  // namespace stepwatch::operations
