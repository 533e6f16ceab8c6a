// loss_spike and divergence: a loss that jumps, and one that rises and goes on rising.
#pragma once

#include "operations/detectors/detector.h"
#include "operations/detectors/step_rows.h"
#include "operations/detectors/variation.h"

namespace stepwatch::operations {

class LossLevelDetector : public Detector {
 public:
  explicit LossLevelDetector(const NumericsSettings& settings) : settings_(settings) {}

  void OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  void OnRestart() override;
  void Apply(const Settings& settings) override { settings_ = settings.numerics; }

 private:
  struct Level {
    double median = 0;
    double deviation = 0;
  };

  void Take(const StepRow& row, Findings* findings);
  void TakeLearningRate(const BeatFacts& beat);
  void ForgetRepeated(const BeatFacts& beat);
  double RiseMin(double least, double level, double height) const;
  bool HasRestartedLearningRate() const;
  double RatioMin(double ratio) const;
  Level UsualLevel() const;
  void WatchSpike(const StepRow& row, double loss, Findings* findings);
  void JudgeElevated(const StepRow& row, const Level& level, Findings* findings);
  bool HasSettled() const;
  void WatchRecovery(double loss, Findings* findings);
  void WatchDivergence(const StepRow& row, Findings* findings);
  void WatchReturn(double level, Findings* findings);
  double Noise() const;
  bool Rises(size_t block, double noise, double* top) const;
  void RaiseSpike(const StepRow& row, const Level& level, Findings* findings);
  void ForgetLevels(size_t count);
  void RaiseDivergence(const StepRow& row, double top, Findings* findings);
  void Accept(double loss, int64_t step);

  NumericsSettings settings_;
  StepRows rows_;
  SampleWindow usual_{64};            // the largest of the ranks' losses, where nothing is odd
  SampleWindow misses_{32};           // of those: how far each is from the median of the few before
  SampleWindow losses_{1024};         // all of them
  std::vector<StepRow> elevated_;     // rows in a row that are above it
  SampleWindow levels_{256};          // the middle of the ranks' losses
  std::vector<int64_t> level_steps_;  // of `levels_`, the newest last
  Excursions excursions_;             // of the level of a few samples
  double told_top_ = 0;               // the level at which a divergence was told
  int64_t told_samples_ = 0;          // since then
  int64_t last_good_step_ = -1;
  bool is_spiking_ = false;
  bool is_diverging_ = false;
  Level spike_level_;       // of the newest samples before it
  int64_t calm_ = 0;        // samples in a row that are back
  double first_level_ = 0;  // of the run's losses, also before a restart; 0: not yet known
  SampleWindow learning_rates_{128};
  int64_t learning_rate_rank_ = -1;  // whose they are
};

}  // namespace stepwatch::operations
