// grad_explosion and grad_collapse: a gradient norm that is many times, or a small part of, its usual level.
#pragma once

#include "operations/detectors/detector.h"
#include "operations/detectors/numbers/step_rows.h"
#include "operations/detectors/tools/variation.h"

namespace stepwatch::operations {

class GradLevelDetector : public Detector {
 public:
  explicit GradLevelDetector(const NumericsSettings& settings) : settings_(settings) {}

  void OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  void OnRestart() override;
  void Apply(const Settings& settings) override { settings_ = settings.numerics; }

 private:
  // The level of a number over hundreds of samples, as a logarithm. It follows slowly, so that a slow fall is visible.
  struct SlowLevel {
    int64_t samples = 0;
    double log = 0;
    void Add(double log_sample, const SampleWindow& first);
  };

  // The height of a norm above the usual level.
  struct Height {
    double median = 0;  // logarithms: of the last samples,
    double level = 0;   // and of those before, if it is lower
    bool is_high = false;
    bool is_at_once = false;
  };

  void Take(const StepRow& row, Findings* findings);
  void WatchExplosion(const StepRow& row, double log_norm, Findings* findings);
  void TakeUsual(const StepRow& row, double log_norm, Findings* findings);
  Height HeightOf(double log_norm) const;
  double Noise() const;
  int64_t LastUsualStep(double log_limit) const;
  void WatchCollapse(const StepRow& row, double log_norm, Findings* findings);
  int64_t CollapseSamples() const;
  void EndLow();
  bool IsRounding(double norm) const;

  NumericsSettings settings_;
  StepRows rows_;
  SampleWindow high_{64};  // logarithms of the ranks' largest norm, of rows without faults
  std::vector<int64_t> high_steps_;
  SampleWindow norms_{1024};  // logarithms of all the largest norms
  SlowLevel high_level_;
  SampleWindow low_{64};  // of the smallest one
  SlowLevel low_level_;
  int64_t above_ = 0;  // samples in a row
  int64_t below_ = 0;
  int64_t deep_ = 0;           // of those
  int64_t longest_below_ = 0;  // samples in a row that were low, and over
  int64_t calm_ = 0;
  int64_t again_ = 0;
  int64_t last_good_step_ = -1;
  int decimals_ = 0;  // of the norms so far
  bool is_exploding_ = false;
  bool is_collapsed_ = false;
};

}  // namespace stepwatch::operations
