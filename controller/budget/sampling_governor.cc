#include "controller/budget/sampling_governor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "stepwatch/site_kind.h"

namespace stepwatch::budget {
namespace {

constexpr double kShareLowered = 0.9;        // share of the budget that a lower sampling should take
constexpr double kShareLoweredAgain = 0.65;  // if the previous change was a reduction too: costs grow, or vary widely
constexpr double kShareRaised = 0.8;         // share of the budget that a higher sampling should take
constexpr double kWorthARaise = 0.75;        // of the factor in force: a smaller change is not made
constexpr double kAloneAbove = 4;            // times the mean of the others: outlier among collected steps
constexpr double kPauseAbove = 10;  // times the mean of the others: long step, such as a checkpoint or an evaluation
constexpr double kShift = 1.25;  // all later samples differ from all earlier ones by this factor: the job has changed
constexpr size_t kShiftSamples = 3;  // number of later samples
constexpr double kLeastOfElapsed =
    1e-3;                            // lower bound of the steps' share of the time, as threads may measure in parallel
constexpr int64_t kStoodTimes = 64;  // times the hold-down: a change that lasted this long was right
constexpr int64_t kFadeTimes = 4;    // times the hold-down: halves the believed cost of a kind that is left out
constexpr size_t kShown = 16;        // collected steps
constexpr double kFactorCap = 1e15;

double Seconds(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

double Sum(const Costs& cost) {
  return std::accumulate(cost.begin(), cost.end(), 0.0);
}

bool IsLeftOut(const plan::Sampling& sampling, size_t kind) {
  return kind < kSiteKindCount && std::find(sampling.left_out.begin(), sampling.left_out.end(),
                                            static_cast<SiteKind>(kind)) != sampling.left_out.end();
}

// Returns the greatest sample if it exceeds `above` times the mean of the others.
template <class Sample, class Value>
const Sample* StandsAlone(const std::vector<const Sample*>& samples, const Value& value, double above) {
  if (samples.size() < SamplingGovernor::kSamplesMin) return nullptr;
  const Sample* greatest = samples.front();
  double sum = 0;
  for (const Sample* each : samples) {
    sum += value(*each);
    if (value(*each) > value(*greatest)) greatest = each;
  }
  const double others = (sum - value(*greatest)) / static_cast<double>(samples.size() - 1);
  return value(*greatest) > above * others ? greatest : nullptr;
}

// True if the last kShiftSamples samples are all above, or all below, all earlier ones.
template <class Sample, class Value>
bool AllBeyond(const std::vector<const Sample*>& samples, const Value& value) {
  if (samples.size() < SamplingGovernor::kSamplesMin + kShiftSamples) return false;
  const auto less = [&](const Sample* a, const Sample* b) { return value(*a) < value(*b); };
  const auto middle = samples.end() - static_cast<std::ptrdiff_t>(kShiftSamples);
  const auto [before_least, before_most] = std::minmax_element(samples.begin(), middle, less);
  const auto [after_least, after_most] = std::minmax_element(middle, samples.end(), less);
  return value(**after_least) > kShift * value(**before_most) || kShift * value(**after_most) < value(**before_least);
}

// The most expensive kind in `cost`.
size_t MostExpensive(const Costs& cost) {
  return static_cast<size_t>(std::max_element(cost.begin(), cost.begin() + kSiteKindCount) - cost.begin());
}

// The names of the kinds in one list that are not in the other.
std::string NamesWithout(const std::vector<SiteKind>& kinds, const std::vector<SiteKind>& without) {
  std::string names;
  for (const SiteKind kind : kinds)
    if (std::find(without.begin(), without.end(), kind) == without.end())
      names += (names.empty() ? "" : ", ") + std::string(SiteKindName(kind));
  return names;
}

}  // namespace

SamplingGovernor::SamplingGovernor(const Limits& limits)
    : limits_(limits),
      window_min_(
          std::clamp(static_cast<size_t>(std::max<int64_t>(limits.longest_every, 1)) * 2, kWindow, kWindowMax)) {}

SamplingGovernor::Sample SamplingGovernor::SampleOf(const Measured& measured) {
  const step::StepCost& cost = measured.cost;
  Sample sample;
  sample.collected = std::max<int64_t>(cost.collected, 1);
  sample.steps = std::max<int64_t>(cost.steps, 1);
  sample.is_first = measured.is_first;
  for (size_t i = 0; i < cost.ns.size(); ++i)
    sample.cost[i] = Seconds(cost.ns[i]) / static_cast<double>(sample.collected);
  sample.total = Sum(sample.cost);
  const double elapsed = Seconds(cost.elapsed_ns), measuring = Seconds(cost.total_ns());
  const auto steps = static_cast<double>(sample.steps);
  double bare = elapsed - measuring;
  if (sample.steps >= 3) {
    const double longest = Seconds(cost.longest_ns) - measuring;  // usually in the collected step
    const double others = (bare - std::max(longest, 0.0)) / (steps - 1);
    if (longest > kPauseAbove * others && others > 0) bare = others * steps;
  }
  sample.step = std::max(bare, elapsed * kLeastOfElapsed) / steps;
  return sample;
}

void SamplingGovernor::Add(const Measured& measured, const plan::Sampling& sampling) {
  const Sample sample = SampleOf(measured);
  if (sampling.left_out != left_out_) window_.clear();
  left_out_ = sampling.left_out;
  window_.push_back(sample);
  last_.push_back(sample);
  if (last_.size() > kShown) last_.pop_front();
  if (!sample.is_first) since_change_ += sample.collected;
  Trim();
}

void SamplingGovernor::Trim() {
  if (HasShifted()) {
    auto first = window_.end();
    for (size_t kept = 0; kept < kShiftSamples;) kept += (--first)->is_first ? 0 : 1;
    window_.erase(window_.begin(), first);
  }
  // Each raise that had to be taken back doubles the hold-down, and with it the window.
  const size_t most = std::min(window_min_ * static_cast<size_t>(hold_down_ / kHoldDown), kWindowMax);
  while (window_.size() > most) window_.pop_front();
}

std::vector<const SamplingGovernor::Sample*> SamplingGovernor::Counted() const {
  std::vector<const Sample*> counted;
  for (const Sample& each : window_)
    if (!each.is_first) counted.push_back(&each);
  return counted;
}

bool SamplingGovernor::HasShifted() const {
  const std::vector<const Sample*> counted = Counted();
  return AllBeyond(counted, [](const Sample& each) { return each.total; }) ||
         AllBeyond(counted, [](const Sample& each) { return each.step; });
}

std::optional<SamplingGovernor::Estimate> SamplingGovernor::MakeEstimate() const {
  const std::vector<const Sample*> counted = Counted();
  if (counted.size() < kSamplesMin) return std::nullopt;
  Estimate estimate;
  const Sample* const alone = StandsAlone(
      counted, [](const Sample& each) { return each.total; }, kAloneAbove);
  const auto taken = static_cast<double>(counted.size() - (alone == nullptr ? 0 : 1));
  for (const Sample* each : counted)
    for (size_t i = 0; each != alone && i < estimate.cost.size(); ++i) estimate.cost[i] += each->cost[i] / taken;
  std::vector<const Sample*> all;
  for (const Sample& each : window_) all.push_back(&each);
  const Sample* const pause = StandsAlone(
      all, [](const Sample& each) { return each.step; }, kPauseAbove);
  double steps = 0, seconds = 0;
  for (const Sample* each : all) {
    if (each == pause) continue;
    steps += static_cast<double>(each->steps);
    seconds += each->step * static_cast<double>(each->steps);
  }
  estimate.step = seconds / steps;
  if (!(estimate.step > 0)) return std::nullopt;
  return estimate;
}

double SamplingGovernor::PercentOf(const Costs& cost, const plan::Sampling& sampling, double step) const {
  const double steps = static_cast<double>(limits_.step_interval) * static_cast<double>(sampling.factor);
  double sum = 0;
  for (size_t i = 0; i < cost.size(); ++i) sum += IsLeftOut(sampling, i) ? 0 : cost[i];
  return 100 * sum / (steps * step);
}

// The smallest factor with which these kinds take this share of the budget.
int64_t SamplingGovernor::FactorFor(const Costs& cost, const plan::Sampling& sampling, double step,
                                    double share) const {
  const plan::Sampling once{1, sampling.left_out};
  const double factor = PercentOf(cost, once, step) / (share * limits_.percent);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(std::min(factor, kFactorCap))));
}

plan::Sampling SamplingGovernor::Lowered(const Estimate& estimate, const plan::Sampling& in_force) const {
  plan::Sampling lowered = in_force;
  const bool is_lowered = !last_raised_ && in_force != plan::Sampling{};
  const bool again = is_lowered && since_change_ < static_cast<int64_t>(kWindow);
  const double share = again ? kShareLoweredAgain : kShareLowered;
  int64_t factor = std::max(FactorFor(estimate.cost, lowered, estimate.step, share), in_force.factor + 1);
  Costs left = estimate.cost;
  for (size_t i = 0; i < left.size(); ++i) left[i] = IsLeftOut(lowered, i) ? 0 : left[i];
  const auto kinds = [&] {
    return std::count_if(left.begin(), left.begin() + kSiteKindCount, [](double each) { return each > 0; });
  };
  while (factor > kFactorMax && kinds() > 1) {
    const size_t most = MostExpensive(left);
    left[most] = 0;
    lowered.left_out.push_back(static_cast<SiteKind>(most));
    factor = FactorFor(estimate.cost, lowered, estimate.step, share);
  }
  std::sort(lowered.left_out.begin(), lowered.left_out.end());
  lowered.factor = std::min(factor, kFactorMax);
  return lowered;
}

// Kinds that are left out count with their last measured cost. That cost may be outdated, so it counts less the longer
// they are left out, and in the end they are tried again.
Costs SamplingGovernor::Believed(const Estimate& estimate, const plan::Sampling& in_force) const {
  Costs believed = estimate.cost;
  const double faded = std::exp2(-static_cast<double>(since_change_ / (kFadeTimes * hold_down_)));
  for (const SiteKind kind : in_force.left_out)
    believed[static_cast<size_t>(kind)] = believed_[static_cast<size_t>(kind)] * faded;
  return believed;
}

std::optional<plan::Sampling> SamplingGovernor::Raised(const Estimate& estimate, const plan::Sampling& in_force) const {
  if (since_change_ < hold_down_) return std::nullopt;
  const Costs believed = Believed(estimate, in_force);
  if (!in_force.left_out.empty()) {
    const auto cheapest = std::min_element(
        in_force.left_out.begin(), in_force.left_out.end(),
        [&](SiteKind a, SiteKind b) { return believed[static_cast<size_t>(a)] < believed[static_cast<size_t>(b)]; });
    plan::Sampling raised = in_force;
    raised.left_out.erase(raised.left_out.begin() + (cheapest - in_force.left_out.begin()));
    raised.factor = FactorFor(believed, raised, estimate.step, kShareRaised);
    if (static_cast<double>(raised.factor) <= kShareRaised * static_cast<double>(kFactorMax)) return raised;
  }
  const int64_t factor = FactorFor(believed, in_force, estimate.step, kShareRaised);
  if (static_cast<double>(factor) > kWorthARaise * static_cast<double>(in_force.factor)) return std::nullopt;
  return plan::Sampling{factor, in_force.left_out};
}

std::optional<SamplingGovernor::Decision> SamplingGovernor::Decide(const plan::Sampling& in_force) const {
  const std::optional<Estimate> estimate = MakeEstimate();
  if (!estimate || in_force.left_out != left_out_) return std::nullopt;
  Decision decision;
  decision.percent = PercentOf(estimate->cost, in_force, estimate->step);
  decision.lowers = decision.percent > limits_.percent;
  const std::optional<plan::Sampling> wanted =
      decision.lowers ? std::optional(Lowered(*estimate, in_force)) : Raised(*estimate, in_force);
  if (!wanted || *wanted == in_force) return std::nullopt;
  decision.sampling = *wanted;
  decision.percent_then = PercentOf(Believed(*estimate, in_force), decision.sampling, estimate->step);
  Costs left = estimate->cost;
  for (size_t most = MostExpensive(left); left[most] > 0 && decision.most_expensive.size() < 3;
       most = MostExpensive(left)) {
    left[most] = 0;
    decision.most_expensive.push_back(static_cast<SiteKind>(most));
  }
  return decision;
}

void SamplingGovernor::Follow(const Decision& decision, const plan::Sampling& in_force) {
  const std::optional<Estimate> estimate = MakeEstimate();
  for (const SiteKind kind : decision.sampling.left_out)
    if (estimate && !IsLeftOut(in_force, static_cast<size_t>(kind)))
      believed_[static_cast<size_t>(kind)] = estimate->cost[static_cast<size_t>(kind)];
  if (since_change_ >= kStoodTimes * hold_down_)
    hold_down_ = std::max(hold_down_ / 2, kHoldDown);
  else if (decision.lowers && last_raised_)
    hold_down_ = std::min(2 * hold_down_, kHoldDownMax);
  last_raised_ = !decision.lowers;
  since_change_ = 0;
}

std::optional<double> SamplingGovernor::spent_percent() const {
  double cost = 0, seconds = 0;
  for (const Sample& each : last_) {
    cost += each.total * static_cast<double>(each.collected);
    seconds += each.step * static_cast<double>(each.steps);
  }
  return seconds > 0 ? std::optional(100 * cost / seconds) : std::nullopt;
}

std::optional<double> SamplingGovernor::percent(const plan::Sampling& in_force) const {
  const std::optional<Estimate> estimate = MakeEstimate();
  if (!estimate) return std::nullopt;
  return PercentOf(estimate->cost, in_force, estimate->step);
}

bool SamplingGovernor::is_exhausted(const plan::Sampling& in_force) const {
  const std::optional<Estimate> estimate = MakeEstimate();
  return estimate && PercentOf(estimate->cost, in_force, estimate->step) > limits_.percent &&
         Lowered(*estimate, in_force) == in_force;
}

std::string DecisionText(const SamplingGovernor::Decision& decision, const plan::Sampling& in_force, double budget,
                         int64_t step_interval) {
  std::string text =
      fmt::format("budget of {} %: measuring takes {:.3g} % of the training time", budget, decision.percent);
  if (decision.lowers && !decision.most_expensive.empty())
    text += ", most of it for " + NamesWithout(decision.most_expensive, {});
  if (const std::string names = NamesWithout(decision.sampling.left_out, in_force.left_out); !names.empty())
    text += "; " + names + " not collected from here on";
  if (const std::string names = NamesWithout(in_force.left_out, decision.sampling.left_out); !names.empty())
    text += "; " + names + " collected again";
  return text + fmt::format("; from now on 1 of {} steps is collected, before it was 1 of {}, and {:.3g} % is expected",
                            step_interval * decision.sampling.factor, step_interval * in_force.factor,
                            decision.percent_then);
}

}  // namespace stepwatch::budget
