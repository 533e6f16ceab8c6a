#include "operations/runs/time_account.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepwatch::operations {
namespace {

constexpr double kStallFactor = 3;
// Shorter times in another phase are beats out of order.
constexpr double kLostSecondsMin = 1e-3;

constexpr std::array<std::string_view, 5> kLostInPhase = {"time.lost.init", "", "time.lost.eval",
                                                          "time.lost.checkpoint", "time.lost.pause"};

}  // namespace

bool IsTimeSeries(std::string_view name) {
  return name == kRepeatedSeries || std::find(kTimeSeries.begin(), kTimeSeries.end(), name) != kTimeSeries.end();
}

void TimeAccount::Add(std::string_view name, double wall, double value) {
  if (is_silent_ || !std::isfinite(value) || !(std::abs(wall) < 1e15)) return;
  auto found = series_.find(name);
  if (found == series_.end()) found = series_.try_emplace(std::string(name)).first;
  found->second.Add(static_cast<int64_t>(std::floor(wall)), wall, value);
}

void TimeAccount::Start(double now) {
  accounted_at_ = phase_at_ = now;
}

void TimeAccount::Restart(double now) {
  // If no step is known, the lines before are gone, and the time since the last step was accounted by their reader.
  is_restarting_ = true;
  if (is_starting_) accounted_at_.reset();
  TakePhase(now, RunPhase::kInit);
}

void TimeAccount::TakePhase(double now, RunPhase phase) {
  phase_seconds_[static_cast<size_t>(phase_)] += std::max(0.0, now - std::max(phase_at_, accounted_at_.value_or(now)));
  if (phase != left_) left_ = RunPhase::kTrain;
  phase_ = phase == left_ ? RunPhase::kTrain : phase;
  phase_at_ = now;
}

void TimeAccount::TakeAdvance(const Advance& advance) {
  const double wall = advance.wall;
  TakePhase(advance.now, phase_);
  left_ = std::exchange(phase_, RunPhase::kTrain);
  CountWork(advance);
  const bool is_known = accounted_at_.has_value();
  const double elapsed = advance.now - accounted_at_.value_or(advance.now);
  const std::array<double, 5> phases = phase_seconds_;
  phase_seconds_ = {};
  accounted_at_ = advance.now;
  const bool is_first = is_starting_ || is_restarting_;
  const std::string_view begin = is_restarting_ ? "time.lost.restart" : "time.lost.start";
  is_starting_ = is_restarting_ = false;
  const int64_t known = std::max(furthest_, advance.from < 0 ? advance.to - 1 : advance.from);
  const auto added = static_cast<double>(std::max<int64_t>(0, advance.to - known));
  furthest_ = std::max(furthest_, advance.to);
  Add("time.step", wall, static_cast<double>(furthest_));
  if (added > 0) Add("time.counted_steps", wall, added);
  // The first step after a start comes with the start's time: it has no time of its own.
  if (is_first) {
    if (is_known) Lose(begin, wall, elapsed);
    return;
  }
  if (!is_known || advance.from < 0) return;
  double elsewhere = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    if (kLostInPhase[i].empty() || phases[i] < kLostSecondsMin) continue;
    elsewhere += phases[i];
    Lose(kLostInPhase[i], wall, phases[i]);
  }
  const auto steps = static_cast<double>(advance.to - advance.from);
  double training = std::max(0.0, elapsed - elsewhere);
  const double limit = kStallFactor * advance.typical_seconds * steps;
  if (limit > 0 && training > limit) {
    Lose("time.lost.stall", wall, training - advance.typical_seconds * steps);
    training = advance.typical_seconds * steps;
  } else if (elsewhere == 0) {
    Add("time.step_seconds", wall, training / steps);
  }
  const double share = std::min(1.0, added / steps);
  if (share > 0) Add("time.counted_seconds", wall, training * share);
  Lose(kRepeatedSeries, wall, training * (1 - share));
}

void TimeAccount::CountWork(const Advance& advance) {
  const std::array<std::optional<double>, 3> totals = {advance.work.tokens, advance.work.samples, advance.work.flops};
  constexpr std::array<std::string_view, 3> kNames = {"time.tokens", "time.samples", "time.flops"};
  for (size_t i = 0; i < totals.size(); ++i) {
    if (!totals[i]) continue;
    const double more = *totals[i] >= work_[i] ? *totals[i] - work_[i] : *totals[i];
    work_[i] = *totals[i];
    if (more > 0) Add(kNames[i], advance.wall, more);
  }
}

void TimeAccount::Halve() {
  for (auto& [name, series] : series_) series.Halve();
}

}  // namespace stepwatch::operations
