#include "bench/rounds.h"

#include <time.h>

#include <algorithm>
#include <cmath>

namespace stepwatch::bench {
namespace {

// Interpolates between neighbouring values.
double Quantile(const std::vector<double>& sorted, double q) {
  const double place = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {Quantile(values, 0.5), Quantile(values, 0.25), Quantile(values, 0.75)};
}

Spread Scaled(const Spread& spread, double factor) {
  return {spread.median * factor, spread.low * factor, spread.high * factor};
}

double Seconds(Clock clock) {
  timespec now;
  ::clock_gettime(clock == Clock::kThreadCpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

size_t Rounds::Add(std::function<void()> action, int calls) {
  actions_.push_back({std::move(action), calls, {}});
  return actions_.size() - 1;
}

double Rounds::Time(const Action& action) const {
  const double start = Seconds(clock_);
  for (int i = 0; i < action.calls; ++i) action.call();
  return (Seconds(clock_) - start) / action.calls;
}

void Rounds::Run(int rounds) {
  constexpr double kTurnSeconds = 3e-3;
  for (Action& action : actions_) {
    const bool choose = action.calls == 0;
    action.calls = std::max(action.calls, 1);
    action.call();
    const double once = std::max(Time(action), 1e-8);
    if (choose) action.calls = static_cast<int>(std::ceil(kTurnSeconds / once));
  }
  for (int round = 0; round < rounds; ++round)
    for (size_t turn = 0; turn < actions_.size(); ++turn) {
      Action& action = actions_[(turn + static_cast<size_t>(round)) % actions_.size()];
      action.seconds.push_back(Time(action));
    }
}

Spread Rounds::SecondsOf(size_t action) const {
  return SpreadOf(actions_[action].seconds);
}

Spread Rounds::Ratio(size_t over, size_t under) const {
  std::vector<double> ratios;
  for (size_t round = 0; round < actions_[over].seconds.size(); ++round)
    ratios.push_back(actions_[over].seconds[round] / actions_[under].seconds[round]);
  return SpreadOf(ratios);
}

double Rounds::RatioOfBest(size_t over, size_t under) const {
  const auto best = [this](size_t action) {
    return *std::min_element(actions_[action].seconds.begin(), actions_[action].seconds.end());
  };
  return best(over) / best(under);
}

}  // namespace stepwatch::bench
