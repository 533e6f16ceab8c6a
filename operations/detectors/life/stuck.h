// stuck: a run that stands still, or a rank that does while the others make steps.
#pragma once

#include <map>

#include "operations/detectors/detector.h"
#include "operations/detectors/life/suspects.h"

namespace stepwatch::operations {

class StuckDetector : public Detector {
 public:
  explicit StuckDetector(const StuckSettings& settings) : settings_(settings) {}

  void OnEvent(const RunState& run, const Line& line, double now, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  void OnRestart() override;
  void Apply(const Settings& settings) override { settings_ = settings.stuck; }

 private:
  double Deadline(const RunState& run, const Suspects& suspects, double now) const;
  double StartDeadline(const RunState& run, bool all_silent) const;
  double PhaseDeadline(const RunState& run, const Suspects& suspects, double now) const;
  double LastStepOf(const Suspects& suspects, const RunState& run) const;
  bool IsNews(const RunState& run, double now, Suspects* suspects) const;
  void WatchRanks(const RunState& run, double now, Findings* findings);
  Finding Describe(const RunState& run, const Suspects& suspects, double deadline, double now) const;

  StuckSettings settings_;
  bool is_raised_ = false;
  std::optional<int64_t> reported_step_;
  double reported_at_ = 0;
  std::vector<int64_t> reported_ranks_;
  GpuUse gpus_;
  std::map<int64_t, int64_t> stuck_ranks_;  // rank, while the others make steps, to its step
  double still_at_ = -1;                    // the whole run stood still
  double signal_at_ = -1;                   // when a process was asked to end
};

}  // namespace stepwatch::operations
