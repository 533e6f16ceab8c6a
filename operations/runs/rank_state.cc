#include "operations/runs/rank_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stepwatch::operations {
namespace {

// A rank that has gone back reports more than this many earlier steps; late beats come in a burst.
constexpr int64_t kLowerBeatsMin = 3;
constexpr double kLowerSecondsMin = 3;
constexpr double kSmoothing = 0.1;
constexpr double kDoubled = 0.25;  // of the usual time between beats: a repeated beat, which is not counted
constexpr int64_t kShortGaps = 3;  // in a row: beats have become more frequent

bool IsSame(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// Returns whether the value is a new measurement. A gauge that is refreshed each ten steps is reported ten times for
// each value; a value that is unchanged for longer than ever before was measured again, with the same result.
bool IsFresh(bool changed, int64_t step, Gauge* gauge) {
  if (changed && gauge->changed_step >= 0 && step > gauge->changed_step) {
    const int64_t steps = step - gauge->changed_step;
    const bool is_fewer = gauge->refresh_steps == 0 || steps < gauge->refresh_steps;
    gauge->refresh_steps = is_fewer ? steps : gauge->refresh_steps + (steps - gauge->refresh_steps + 7) / 8;
  }
  if (changed) gauge->changed_step = std::max(gauge->changed_step, step);
  const int64_t steps_min = gauge->refresh_steps <= 1 ? 1 : gauge->refresh_steps + (gauge->refresh_steps + 1) / 2;
  if (!changed && step - gauge->fresh_step < steps_min) return false;
  gauge->fresh_step = step;
  return true;
}

std::optional<Sample> Take(const std::optional<double>& value, int64_t step, Gauge* gauge) {
  if (!value) return std::nullopt;
  const bool changed = !gauge->is_known || !IsSame(gauge->value, *value);
  if (gauge->is_known && (step < gauge->step || (step == gauge->step && (step >= 0 || !changed)))) return std::nullopt;
  if (changed && gauge->is_known) gauge->before = gauge->value;
  gauge->is_known = true;
  gauge->value = *value;
  gauge->step = step;
  if (std::isfinite(*value)) gauge->finite_step = step;
  return Sample{*value, changed, IsFresh(changed, step, gauge)};
}

// An evaluation has a loss of its own, which is not that of training, also when later beats repeat it.
std::optional<Sample> TakeLoss(const Beat& beat, RunPhase phase, int64_t step, RankState* rank) {
  if (!beat.loss || !std::isfinite(*beat.loss)) return Take(beat.loss, step, &rank->loss);
  if (phase == RunPhase::kEval) {
    if (!IsSame(rank->loss.value, *beat.loss)) rank->eval_loss = beat.loss;
    return std::nullopt;
  }
  if (rank->eval_loss && IsSame(*rank->eval_loss, *beat.loss)) return std::nullopt;
  rank->eval_loss.reset();
  return Take(beat.loss, step, &rank->loss);
}

std::optional<Sample> TakeLate(const std::optional<double>& value) {
  if (!value || std::isfinite(*value)) return std::nullopt;
  return Sample{*value, true, true};
}

// InternEvo reports -1 for a norm that overflowed and -2 for one that is NaN; a norm is never negative.
std::optional<double> NormOf(std::optional<double> norm) {
  if (norm == -1.0) return std::numeric_limits<double>::infinity();
  if (norm == -2.0) return std::numeric_limits<double>::quiet_NaN();
  return norm;
}

void TakePhase(const Beat& beat, double now, bool advanced, RankState* rank) {
  ++rank->phase_beats;
  if (!beat.phase || *beat.phase == rank->phase) {
    rank->odd_phase_beats = 0;
    return;
  }
  // A beat from before an evaluation may come late. Only the second beat of training ends the phase.
  const bool is_back =
      *beat.phase == RunPhase::kTrain && (rank->phase == RunPhase::kEval || rank->phase == RunPhase::kCheckpoint);
  if (is_back && !advanced && ++rank->odd_phase_beats < 2) return;
  rank->phase = *beat.phase;
  rank->phase_at = rank->changed_at = now;
  rank->phase_beats = 1;
  rank->odd_phase_beats = 0;
}

void TakeModule(const Beat& beat, double now, RankState* rank) {
  if (beat.module.empty() || beat.module == rank->module) return;
  rank->module = beat.module;
  rank->module_at = rank->changed_at = now;
}

// Returns whether beats of earlier steps show that the rank has gone back to one.
bool HasGoneBack(int64_t step, double now, RankState* rank) {
  if (rank->lower_beats == 0 || step < rank->lower_step) {
    rank->lower_beats = 0;
    rank->lower_at = now;
  }
  if (step != rank->lower_step || rank->lower_beats == 0) ++rank->lower_beats;
  rank->lower_step = step;
  return rank->lower_beats >= kLowerBeatsMin && now - rank->lower_at >= kLowerSecondsMin;
}

void GoBack(RankState* rank) {
  rank->step.reset();
  rank->lower_beats = 0;
  for (Gauge* gauge : {&rank->loss, &rank->grad_norm, &rank->lr, &rank->tokens, &rank->samples, &rank->step_seconds,
                       &rank->loss_scale})
    *gauge = Gauge();
  rank->eval_loss.reset();
}

void TakeStep(int64_t step, double now, BeatFacts* facts, RankState* rank) {
  if (rank->step && step <= *rank->step) return;
  facts->advanced = rank->step ? step - *rank->step : 1;
  facts->advance_seconds = rank->step ? now - rank->step_at : 0;
  rank->step = step;
  rank->step_at = rank->changed_at = now;
  rank->step_beats = 0;
  rank->waits = false;
}

}  // namespace

BeatFacts ApplyBeat(const Beat& beat, double now, RankState* rank) {
  BeatFacts facts;
  facts.rank = rank;
  facts.now = now;
  facts.step = beat.step.value_or(rank->step.value_or(-1));
  if (rank->beats > 0) {
    const double gap = now - rank->reported_at;
    rank->short_gaps = gap < kDoubled * rank->beat_seconds ? rank->short_gaps + 1 : 0;
    const bool is_doubled = rank->short_gaps > 0 && rank->short_gaps < kShortGaps;
    if (rank->beats == 1)
      rank->beat_seconds = gap;
    else if (rank->short_gaps >= kShortGaps)
      rank->beat_seconds = std::max(gap, kDoubled * rank->beat_seconds);
    else if (!is_doubled)
      rank->beat_seconds += kSmoothing * (gap - rank->beat_seconds);
    if (!is_doubled) rank->report_gap = gap;
  }
  ++rank->beats;
  ++rank->step_beats;
  rank->reported_at = now;
  if (beat.step && rank->step && *beat.step < *rank->step) {
    facts.rewound = HasGoneBack(*beat.step, now, rank);
    facts.late = !facts.rewound;
    if (facts.rewound) GoBack(rank);
  } else {
    rank->lower_beats = 0;
  }
  if (facts.late) {
    facts.loss = TakeLate(beat.loss);
    facts.grad_norm = TakeLate(NormOf(beat.grad_norm));
    return facts;
  }
  if (beat.step) TakeStep(*beat.step, now, &facts, rank);
  TakePhase(beat, now, facts.advanced > 0, rank);
  TakeModule(beat, now, rank);
  facts.loss = TakeLoss(beat, beat.phase.value_or(rank->phase), facts.step, rank);
  facts.grad_norm = Take(NormOf(beat.grad_norm), facts.step, &rank->grad_norm);
  facts.lr = Take(beat.lr, facts.step, &rank->lr);
  facts.tokens = Take(beat.tokens, facts.step, &rank->tokens);
  facts.step_seconds = Take(beat.step_seconds, facts.step, &rank->step_seconds);
  facts.loss_scale = Take(beat.loss_scale, facts.step, &rank->loss_scale);
  facts.samples = Take(beat.samples, facts.step, &rank->samples);
  if (facts.advanced > 0) facts.reported = &beat.reported;
  return facts;
}

}  // namespace stepwatch::operations
