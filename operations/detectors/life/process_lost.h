// process_lost: a process is lost, or the run has ended in error, and no other finding explains it.
#pragma once

#include <map>

#include "operations/detectors/detector.h"

namespace stepwatch::operations {

class ProcessLostDetector : public Detector {
 public:
  void OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) override;
  void OnEvent(const RunState& run, const Line& line, double now, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  void BeforeRestart(const RunState& run, Findings* findings) override;
  void OnRestart() override;

 private:
  struct Gone {
    int64_t rank = -1;  // -1: not reported
    double at = 0;
    std::optional<int64_t> step;
    std::optional<int64_t> signal;
    bool is_sampled = false;  // of the host, at that moment
  };

  void TakeGone(const RunState& run, const Line& line, double now);
  void TakeEnd(const RunState& run, const Line& line, const EndEvent& end, double now, Findings* findings);
  void TakeLater(const RunState& run, double now, Findings* findings);
  std::vector<int64_t> RanksLost(const RunState& run) const;
  bool WereAsked(const RunState& run) const;
  bool HaveFailed(const std::vector<Gone>& gone, double now) const;
  Finding Describe(const RunState& run, double now) const;

  std::vector<Gone> gone_;
  std::vector<Gone> crashed_;  // a signal was reported; the process may still exist
  bool has_host_samples_ = false;
  double sampled_at_ = -1;  // the host
  double psi_ = 0;
  double psi_at_ = 0;
  std::optional<double> asked_all_at_;  // by a signal without a rank
  std::map<int64_t, double> failed_;    // ranks with a reported exception, and when; -1: without a rank
  bool is_raised_ = false;
};

}  // namespace stepwatch::operations
