// loss_nonfinite and grad_nonfinite: a loss or a gradient norm that is NaN or infinite.
#pragma once

#include <map>
#include <set>

#include "operations/detectors/detector.h"

namespace stepwatch::operations {

class NonfiniteDetector : public Detector {
 public:
  explicit NonfiniteDetector(const NumericsSettings& settings) : settings_(settings) {}

  void OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  void OnRestart() override;
  void Apply(const Settings& settings) override { settings_ = settings.numerics; }

 private:
  struct RankScaler {
    int64_t overflows = 0;  // steps in a row without a finite norm
    double scale = 0;       // the lowest since the first of them
    int64_t first_step = -1;
    bool has_fallen = false;
  };
  struct Bad {
    int64_t step = 0;
    std::optional<int64_t> good_step;
    double value = 0;
  };

  void TakeLoss(const BeatFacts& beat);
  void TakeGrad(const RunState& run, const BeatFacts& beat);
  bool IsScalerAtWork(const RunState& run, const BeatFacts& beat);
  void Note(const BeatFacts& beat, int64_t step, double value, const Gauge& gauge, std::map<int64_t, Bad>* bad);
  void Settle(const RunState& run, double now, Findings* findings);
  void Recover(const BeatFacts& beat, Findings* findings);
  Finding Judge(const RunState& run) const;

  NumericsSettings settings_;
  std::set<int64_t> loss_ranks_;  // that report one
  std::set<int64_t> grad_ranks_;
  std::map<int64_t, Bad> bad_losses_;
  std::map<int64_t, Bad> bad_grads_;
  std::map<int64_t, RankScaler> scalers_;
  std::set<int64_t> reporting_;  // ranks with a later step, since the first bad one
  double noticed_at_ = 0;
  int64_t first_step_ = 0;
  bool is_noticed_ = false;
  bool is_raised_ = false;
  int64_t good_samples_ = 0;
  int64_t bad_step_ = -1;   // the last one
  int64_t good_steps_ = 0;  // after it, by which the fault is over
  int64_t over_step_ = -1;  // at which the last one was over
};

}  // namespace stepwatch::operations
