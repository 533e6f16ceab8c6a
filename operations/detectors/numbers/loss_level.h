// loss_spike and divergence: a loss that jumps, and one that rises and continues to rise.
#pragma once

#include "operations/detectors/detector.h"
#include "operations/detectors/numbers/step_rows.h"
#include "operations/detectors/tools/levels.h"
#include "operations/detectors/tools/variation.h"

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

  // The level just before a spike: the value of one sample, or the mean of several if they are noisy.
  struct BeforeSpike {
    double level = 0;
    double error = 0;
    bool is_noisy = false;
  };

  void Take(const StepRow& row, Findings* findings);
  void TakeLearningRate(const BeatFacts& beat);
  double RiseMin(double least, double level, double height) const;
  bool HasRestartedLearningRate() const;
  bool HasLearningRateJustRisen() const;
  double RiseMinAtOnce(const Level& level, double loss) const;
  bool IsBeyondNoise(const Level& level, double rise) const;
  double RatioMin(double ratio) const;
  Level UsualLevel() const;
  void WatchSpike(const StepRow& row, double loss, Findings* findings);
  void JudgeElevated(const StepRow& row, const Level& level, Findings* findings);
  bool HasSettled() const;
  void WatchRecovery(double loss, Findings* findings);
  void WatchDivergence(const StepRow& row, Findings* findings);
  double RiseMinOf(const operations::Level& level) const;
  void WatchReturn(Findings* findings);
  void RaiseSpike(const StepRow& row, const Level& level, Findings* findings);
  void ForgetLevels(size_t count);
  void RaiseDivergence(const StepRow& row, double lowest, double top, Findings* findings);
  std::optional<int64_t> LastStepBefore() const;
  void Accept(double loss, int64_t step);

  NumericsSettings settings_;
  StepRows rows_;
  SampleWindow usual_{64};            // the largest of the ranks' losses, of rows without faults
  SampleWindow misses_{32};           // of those: the distance of each from the median of the few before
  SampleWindow losses_{1024};         // all of them
  std::vector<StepRow> elevated_;     // consecutive rows above it
  Levels levels_;                     // the middle of the ranks' losses
  std::vector<int64_t> level_steps_;  // of its samples, the newest last
  double reported_top_ = 0;           // the level at which a divergence was raised,
  size_t reported_level_ = 0;         // and the level of the divergence
  size_t reported_samples_ = 0;       // since then
  double loss_max_ = 0;               // values above it are a spike, or count as this high
  int64_t last_good_step_ = -1;
  bool is_spiking_ = false;
  bool is_diverging_ = false;
  BeforeSpike before_spike_;
  SampleWindow since_spike_{16};
  double first_level_ = 0;  // of the run's losses, also before a restart; 0: not yet known
  SampleWindow learning_rates_{128};
  int64_t learning_rate_rank_ = -1;  // whose they are
};

}  // namespace stepwatch::operations
