// checkpoint_overdue: the run has saved its state at regular intervals, and no longer does.
#pragma once

#include "operations/detectors/detector.h"

namespace stepwatch::operations {

class CheckpointOverdueDetector : public Detector {
 public:
  explicit CheckpointOverdueDetector(const PaceSettings& settings) : settings_(settings) {}

  void OnEvent(const RunState& run, const Line& line, double now, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  // From then on the run may save its state at other intervals.
  void OnRestart() override;
  void Apply(const Settings& settings) override { settings_ = settings.pace; }

 private:
  void Take(const RunState& run, int64_t step, Findings* findings);
  double RegularFactor() const;
  bool IsOverdue(double steps) const;
  // Steps and seconds of training after which a checkpoint is overdue; infinite if the interval is not one of these.
  double StepsMax() const;
  double SecondsMax() const;

  PaceSettings settings_;
  SampleWindow step_intervals_{16};
  SampleWindow second_intervals_{16};
  double lag_steps_ = 0;  // the largest lead of the run when a checkpoint was complete
  int64_t step_ = -1;     // of the last checkpoint
  double trained_ = 0;    // seconds since then
  bool is_counting_ = false;
  double ticked_at_ = 0;
  bool has_events_ = false;  // otherwise the end of the phase counts as one
  bool was_saving_ = false;
  double saving_at_ = 0;
  bool may_miss_one_ = false;
  bool is_raised_ = false;
};

}  // namespace stepwatch::operations
