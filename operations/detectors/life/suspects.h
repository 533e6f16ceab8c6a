// The ranks that hold up a run that stands still, and the evidence for it.
#pragma once

#include <map>
#include <vector>

#include "operations/runs/run_state.h"

namespace stepwatch::operations {

inline constexpr int64_t kFirstAdvances = 3;  // steps of training by which a run has begun

struct Suspects {
  std::vector<int64_t> ranks;
  const char* witness = "silence";
  bool is_witnessed = false;  // by the operating system or the collective library
  bool is_silent = false;     // it is, and its peers are not
  bool is_odd = false;        // one is silent or behind while its peers are alive
};

// How busy the GPU of each rank was when it was last sampled.
class GpuUse {
 public:
  void Add(int64_t rank, double percent, double now) { use_[rank] = {percent, now}; }
  void Clear() { use_.clear(); }
  // The fewer of those that do nothing and those that do much: GPUs spin in the collective in which most ranks wait for
  // one that does nothing; or one computes on, and the others do nothing.
  std::vector<int64_t> RanksApart(double now) const;

 private:
  struct Use {
    double percent = 0;
    double at = 0;
  };
  std::map<int64_t, Use> use_;
};

Suspects SuspectsOf(const RunState& run, const GpuUse& gpus, double now);

// No beat of it has come for a while.
bool IsSilent(const RunState& run, const RankState& rank, double now);
// After so long a rank is silent beside peers that are not.
double LateSeconds(const RunState& run);
// Ranks that wait in a collective.
std::vector<int64_t> RanksWaiting(const RunState& run);

}  // namespace stepwatch::operations
