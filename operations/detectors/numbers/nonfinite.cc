#include "operations/detectors/numbers/nonfinite.h"

#include <algorithm>
#include <cmath>

namespace stepwatch::operations {
namespace {

// Other ranks may still report the same step.
constexpr double kSettleSeconds = 1;
constexpr double kSettleStepsSecondsMax = 5;
constexpr int64_t kGoodSamples = 3;
// Steps without one; doubled each time that the fault returns soon: one cause may affect only some steps.
constexpr int64_t kGoodSteps = 8;
constexpr int64_t kGoodStepsMax = 64;
constexpr int64_t kSoonSteps = 64;
// A loss scale starts high and is halved step by step; later on it falls a few times in a row at most.
constexpr int64_t kEarlySteps = 60;
constexpr int64_t kLateOverflowsMax = 8;

std::vector<int64_t> RanksAt(const std::map<int64_t, double>& at) {
  std::vector<int64_t> ranks;
  for (const auto& [rank, value] : at) ranks.push_back(rank);
  return ranks;
}

}  // namespace

void NonfiniteDetector::OnRestart() {
  *this = NonfiniteDetector(settings_);
}

void NonfiniteDetector::Note(const BeatFacts& beat, int64_t step, double value, const Gauge& gauge,
                             std::map<int64_t, Bad>* bad) {
  const auto [found, is_new] = bad->try_emplace(beat.rank->rank);
  if (!is_new && found->second.step <= step) return;
  found->second.step = step;
  found->second.value = value;
  if (gauge.finite_step >= 0 && gauge.finite_step < step) found->second.good_step = gauge.finite_step;
  if (is_noticed_) {
    first_step_ = std::min(first_step_, step);
    return;
  }
  const bool is_back_soon = bad_step_ >= 0 && step - bad_step_ <= kSoonSteps;
  good_steps_ = is_back_soon ? std::min(2 * good_steps_, kGoodStepsMax) : kGoodSteps;
  is_noticed_ = true;
  first_step_ = step;
  noticed_at_ = beat.now;
  reporting_.clear();
}

void NonfiniteDetector::TakeLoss(const BeatFacts& beat) {
  if (!beat.loss) return;
  loss_ranks_.insert(beat.rank->rank);
  if (!std::isfinite(beat.loss->value)) Note(beat, beat.step, beat.loss->value, beat.rank->loss, &bad_losses_);
}

// With a loss scale, an overflow is how the scaler finds its scale: the step is skipped, and the scale falls with this
// beat or the next one.
bool NonfiniteDetector::IsScalerAtWork(const RunState& run, const BeatFacts& beat) {
  const Gauge& scale = beat.rank->loss_scale;
  if (!scale.is_known || scale.value <= 1 || beat.late) return false;
  RankScaler& scaler = scalers_[beat.rank->rank];
  if (scaler.overflows++ == 0) {
    scaler.first_step = beat.step;
    // The scale may have fallen with this same beat.
    scaler.scale = scale.step == beat.step && scale.before ? std::max(*scale.before, scale.value) : scale.value;
    scaler.has_fallen = scale.value < scaler.scale;
    scaler.scale = scale.value;
    return true;
  }
  const bool falls = scale.value < scaler.scale;
  scaler.has_fallen = scaler.has_fallen || falls;
  scaler.scale = std::min(scaler.scale, scale.value);
  const bool is_early = run.pace().advances < kEarlySteps;
  if (scaler.overflows > (is_early ? settings_.scaler_steps_max : kLateOverflowsMax)) return false;
  return scaler.has_fallen && (falls || scaler.overflows <= 2);
}

void NonfiniteDetector::TakeGrad(const RunState& run, const BeatFacts& beat) {
  if (!beat.grad_norm) return;
  grad_ranks_.insert(beat.rank->rank);
  if (std::isfinite(beat.grad_norm->value)) {
    if (!beat.late) scalers_.erase(beat.rank->rank);
    return;
  }
  const bool is_excused = IsScalerAtWork(run, beat);
  if (is_excused) return;
  const auto scaler = scalers_.find(beat.rank->rank);
  const int64_t step = scaler == scalers_.end() ? beat.step : scaler->second.first_step;
  Note(beat, step, beat.grad_norm->value, beat.rank->grad_norm, &bad_grads_);
}

void NonfiniteDetector::OnBeat(const RunState& run, const BeatFacts& beat, Findings* findings) {
  if (beat.rewound) OnRestart();
  // A late report of bad steps is ignored.
  if (beat.late && beat.step <= over_step_) return;
  TakeLoss(beat);
  TakeGrad(run, beat);
  if (!is_noticed_) return;
  if (beat.step >= first_step_ && !beat.late) reporting_.insert(beat.rank->rank);
  if (!is_raised_)
    Settle(run, beat.now, findings);
  else
    Recover(beat, findings);
}

void NonfiniteDetector::OnTick(const RunState& run, double now, Findings* findings) {
  if (is_noticed_ && !is_raised_) Settle(run, now, findings);
}

void NonfiniteDetector::Settle(const RunState& run, double now, Findings* findings) {
  const bool have_all_reported = reporting_.size() >= run.ranks().size();
  const double patience = kSettleSeconds + std::min(0.5 * run.pace().StepSeconds(), kSettleStepsSecondsMax);
  if (!have_all_reported && now - noticed_at_ < patience) return;
  is_raised_ = true;
  good_samples_ = 0;
  bad_step_ = std::max(bad_step_, first_step_);
  findings->Raise(Judge(run));
}

Finding NonfiniteDetector::Judge(const RunState& run) const {
  std::map<int64_t, double> losses;
  std::map<int64_t, double> grads;
  std::optional<int64_t> good_step;
  for (const auto* side : {&bad_losses_, &bad_grads_})
    for (const auto& [rank, bad] : *side) {
      if (bad.step > first_step_) continue;
      (side == &bad_losses_ ? losses : grads)[rank] = bad.value;
      if (bad.good_step) good_step = std::max(good_step.value_or(-1), *bad.good_step);
    }
  // The loss comes before its gradients.
  const bool is_loss = !losses.empty();
  const auto& culprits = is_loss ? losses : grads;
  const size_t reporters = is_loss ? loss_ranks_.size() : grad_ranks_.size();
  Finding finding;
  finding.kind = is_loss ? IncidentKind::kLossNonfinite : IncidentKind::kGradNonfinite;
  if (culprits.size() < reporters || run.world() == 1) finding.ranks = RanksAt(culprits);
  finding.since_step =
      good_step ? good_step : (first_step_ > 0 ? std::optional<int64_t>(first_step_ - 1) : std::nullopt);
  finding.evidence.Set("step", first_step_);
  finding.evidence.Set("value", culprits.begin()->second);
  finding.evidence.Set("ranks_first", RanksAt(culprits));
  finding.evidence.Set("ranks_reporting", static_cast<int64_t>(reporters));
  if (!losses.empty()) finding.evidence.Set("loss_nonfinite_on", RanksAt(losses));
  if (!grads.empty()) finding.evidence.Set("grad_norm_nonfinite_on", RanksAt(grads));
  const RankState* rank = run.FindRank(culprits.begin()->first);
  if (rank != nullptr && rank->loss_scale.is_known) finding.evidence.Set("loss_scale", rank->loss_scale.value);
  return finding;
}

void NonfiniteDetector::Recover(const BeatFacts& beat, Findings* findings) {
  if (beat.late) return;
  const auto is_bad = [](const std::optional<Sample>& sample) { return sample && !std::isfinite(sample->value); };
  if (is_bad(beat.loss) || is_bad(beat.grad_norm)) {
    good_samples_ = 0;
    bad_step_ = std::max(bad_step_, beat.step);
    return;
  }
  const auto recover = [&](const std::optional<Sample>& sample, std::map<int64_t, Bad>* bad) {
    if (sample && bad->erase(beat.rank->rank) > 0) good_samples_ = 0;
  };
  recover(beat.loss, &bad_losses_);
  recover(beat.grad_norm, &bad_grads_);
  if (beat.loss || beat.grad_norm) ++good_samples_;
  if (!bad_losses_.empty() || !bad_grads_.empty() || good_samples_ < kGoodSamples) return;
  if (beat.step - bad_step_ < good_steps_) return;
  findings->Clear(IncidentKind::kLossNonfinite);
  findings->Clear(IncidentKind::kGradNonfinite);
  is_noticed_ = is_raised_ = false;
  over_step_ = beat.step;
}

}  // namespace stepwatch::operations
