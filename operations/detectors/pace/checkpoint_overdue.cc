#include "operations/detectors/pace/checkpoint_overdue.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

constexpr double kRegular = 0.1;  // deviation as a part of the interval
constexpr double kRegularSeconds = 0.2;
constexpr size_t kFewIntervals = 3;       // with fewer, the variation is uncertain
constexpr double kFewFactor = 2;          // of the longest, if there are few
constexpr double kIrregularFactor = 2.5;  // of the longest one
constexpr double kFirstFactor = 3;        // after one interval only
constexpr int64_t kFirstStepsMin = 20;
// A phase that ends within this many beats may pass unseen between two of them, unless events report each.
constexpr double kBeatsOfPhase = 1.5;
constexpr double kMissedFactor = 2.3;
constexpr double kSlackSeconds = 30;
constexpr double kAlmost = 0.95;       // of the seconds, which vary a little if the interval is one of steps
constexpr double kTickSecondsMax = 5;  // a longer tick is a standstill, not training

double Longest(const SampleWindow& window) {
  const std::vector<double> all = window.Last(window.size());
  return *std::max_element(all.begin(), all.end());
}

// The deviation of a few intervals is the distance of the farthest.
double Spread(const SampleWindow& window) {
  const double median = window.Median();
  double farthest = 0;
  for (const double interval : window.Last(window.size())) farthest = std::max(farthest, std::abs(interval - median));
  return median > 0 ? farthest / median : RunState::kNever;
}

}  // namespace

void CheckpointOverdueDetector::OnRestart() {
  *this = CheckpointOverdueDetector(settings_);
}

void CheckpointOverdueDetector::OnEvent(const RunState& run, const Line& line, double, Findings* findings) {
  const auto* checkpoint = std::get_if<CheckpointEvent>(&std::get<Event>(line.what));
  if (checkpoint == nullptr) return;
  const std::optional<int64_t> step = checkpoint->step ? checkpoint->step : run.step();
  if (!step) return;
  if (!has_events_) {
    step_intervals_.Clear();
    second_intervals_.Clear();
    is_counting_ = false;
  }
  has_events_ = true;
  may_miss_one_ = false;
  Take(run, *step, findings);
}

void CheckpointOverdueDetector::Take(const RunState& run, int64_t step, Findings* findings) {
  if (is_counting_ && step <= step_) return;
  if (is_counting_ && step_ >= 0) {
    step_intervals_.Add(static_cast<double>(step - step_));
    second_intervals_.Add(trained_);
  }
  if (run.step()) lag_steps_ = std::max(lag_steps_, static_cast<double>(*run.step() - step));
  is_counting_ = true;
  step_ = step;
  trained_ = 0;
  if (is_raised_) findings->Clear(IncidentKind::kCheckpointOverdue);
  is_raised_ = false;
}

double CheckpointOverdueDetector::RegularFactor() const {
  if (may_miss_one_) return std::max(kMissedFactor, settings_.checkpoint_factor);
  return step_intervals_.size() < kFewIntervals ? std::max(kFewFactor, settings_.checkpoint_factor)
                                                : settings_.checkpoint_factor;
}

double CheckpointOverdueDetector::StepsMax() const {
  if (step_intervals_.size() == 0) return RunState::kNever;
  const double median = step_intervals_.Median();
  if (step_intervals_.size() == 1)
    return median >= static_cast<double>(kFirstStepsMin) ? kFirstFactor * median + lag_steps_ : RunState::kNever;
  const double spread = Spread(step_intervals_);
  if (spread < kRegular) return RegularFactor() * Longest(step_intervals_) + 1.5 * lag_steps_ + 2;
  if (SecondsMax() < RunState::kNever) return RunState::kNever;
  return kIrregularFactor * Longest(step_intervals_) + 1.5 * lag_steps_;
}

double CheckpointOverdueDetector::SecondsMax() const {
  if (second_intervals_.size() < 2 || Spread(step_intervals_) < kRegular) return RunState::kNever;
  if (Spread(second_intervals_) > kRegularSeconds) return RunState::kNever;
  return RegularFactor() * Longest(second_intervals_) + kSlackSeconds;
}

bool CheckpointOverdueDetector::IsOverdue(double steps) const {
  const bool is_either =
      step_intervals_.size() > 1 && Spread(step_intervals_) < kRegular && Spread(second_intervals_) < kRegular;
  if (!is_either) return steps > StepsMax() || trained_ > SecondsMax();
  // While the pace stays the same, steps and seconds cannot be distinguished as the interval.
  return steps > StepsMax() && trained_ > kAlmost * RegularFactor() * Longest(second_intervals_);
}

void CheckpointOverdueDetector::OnTick(const RunState& run, double now, Findings* findings) {
  const double passed = std::min(now - ticked_at_, kTickSecondsMax);
  ticked_at_ = now;
  const RunPhase phase = run.phase();
  const bool is_saving = phase == RunPhase::kCheckpoint;
  if (!was_saving_ && is_saving) saving_at_ = now;
  if (was_saving_ && !is_saving && !has_events_ && run.step()) {
    may_miss_one_ = may_miss_one_ || now - saving_at_ < kBeatsOfPhase * run.pace().beat_seconds;
    Take(run, *run.step(), findings);
  }
  was_saving_ = is_saving;
  if (phase != RunPhase::kTrain || run.is_paused(now) || !run.step()) return;
  if (!is_counting_ && step_intervals_.size() > 0) {
    is_counting_ = true;
    step_ = *run.step();
  }
  const bool stands_still = now - run.progress_at() > kSlackSeconds + 3 * run.pace().StepSeconds();
  if (stands_still) return;
  trained_ += passed;
  if (!is_counting_ || is_raised_) return;
  const auto steps = static_cast<double>(*run.step() - step_);
  if (!IsOverdue(steps)) return;
  is_raised_ = true;
  Finding finding;
  finding.kind = IncidentKind::kCheckpointOverdue;
  finding.since_step = step_;
  finding.evidence.Set("checkpoint_step", step_);
  finding.evidence.Set("step", *run.step());
  finding.evidence.Set("interval_steps", step_intervals_.Median());
  finding.evidence.Set("interval_seconds", second_intervals_.Median());
  finding.evidence.Set("steps_since", static_cast<int64_t>(steps));
  finding.evidence.Set("seconds_since", trained_);
  findings->Raise(std::move(finding));
}

}  // namespace stepwatch::operations
