// Decides how much less is collected than the config requests, so that measuring stays within its budget.
//
// Values in, values out: the cost of collected steps and the length of steps without it determine another sampling, or
// no change. docs/use/budget.md describes the rules.
//
// The budget limits the mean over all steps, so the interval follows from the cost of a collected step and the length
// of a step, without a search. Both are means over a window of collected steps, never one step against one step. The
// first collected step has one-time costs and is left out; a single outlier has no effect until a second one follows.
// When the last steps are all above, or all below, all earlier ones, the job has changed, and earlier steps no longer
// count.
//
// A reduction is immediate and has a margin. An increase needs a greater margin and waits for some collected steps
// since the last change, twice as many each time that an increase had to be taken back.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "src/plan/plan.h"
#include "src/step/step_cost.h"

namespace stepwatch::budget {

using Costs = std::array<double, step::kCostCount>;  // of one collected step, in seconds

class SamplingGovernor {
 public:
  // Limit of the factor on the config's interval; if that does not suffice for the budget, kinds are left out.
  static constexpr int64_t kFactorMax = 1000;
  // Number of collected steps in the means, and the minimum for a decision.
  static constexpr size_t kWindow = 32;
  static constexpr size_t kWindowMax = 256;
  static constexpr size_t kSamplesMin = 3;
  // Collected steps from a change to the first raise after it.
  static constexpr int64_t kHoldDown = 6;
  static constexpr int64_t kHoldDownMax = 1024;

  struct Limits {
    double percent = 1;         // of the training time, which is the length of the steps without measuring
    int64_t step_interval = 1;  // of the config
    int64_t longest_every = 1;  // of its groups: this many collected steps pass until all sites are covered
  };
  // One collected step or a few, with the steps since the previous collected one.
  struct Measured {
    step::StepCost cost;
    bool is_first = false;  // the first of its plan
  };
  struct Decision {
    plan::Sampling sampling;
    bool lowers = false;
    double percent = 0;                    // expected without the change
    double percent_then = 0;               // expected with the change
    std::vector<SiteKind> most_expensive;  // kinds collected before the change, at most three
  };

  explicit SamplingGovernor(const Limits& limits);

  // Adds a measurement made with this sampling in force.
  void Add(const Measured& measured, const plan::Sampling& sampling);
  // The change of the sampling in force, if one is due. Repeated calls before the next Add return the same; a decision
  // that is not applied is returned again.
  std::optional<Decision> Decide(const plan::Sampling& in_force) const;
  // Records that the decision is applied. Add recognises measurements from before it by their sampling.
  void Follow(const Decision& decision, const plan::Sampling& in_force);

  // Share of recent steps in per cent of the training time, including one-time costs.
  std::optional<double> spent_percent() const;
  // Expected share with the sampling in force; nullopt until enough is known.
  std::optional<double> percent(const plan::Sampling& in_force) const;
  // True if the cost exceeds the budget and no reduction is left.
  bool is_exhausted(const plan::Sampling& in_force) const;
  int64_t hold_down() const { return hold_down_; }

 private:
  struct Sample {
    Costs cost{};      // seconds per collected step
    double total = 0;  // sum of `cost`
    double step = 0;   // seconds per step, without measuring
    int64_t steps = 0;
    int64_t collected = 0;
    bool is_first = false;
  };
  struct Estimate {
    Costs cost{};
    double step = 0;
  };

  static Sample SampleOf(const Measured& measured);
  void Trim();
  bool HasShifted() const;
  std::vector<const Sample*> Counted() const;
  std::optional<Estimate> MakeEstimate() const;
  double PercentOf(const Costs& cost, const plan::Sampling& sampling, double step) const;
  int64_t FactorFor(const Costs& cost, const plan::Sampling& sampling, double step, double share) const;
  plan::Sampling Lowered(const Estimate& estimate, const plan::Sampling& in_force) const;
  std::optional<plan::Sampling> Raised(const Estimate& estimate, const plan::Sampling& in_force) const;
  Costs Believed(const Estimate& estimate, const plan::Sampling& in_force) const;

  const Limits limits_;
  const size_t window_min_;
  std::deque<Sample> window_;       // measured with the same kinds
  std::vector<SiteKind> left_out_;  // the kinds missing in `window_`
  std::deque<Sample> last_;         // for spent_percent
  Costs believed_{};                // last known cost of kinds that are left out
  int64_t since_change_ = 0;        // counted collected steps
  int64_t hold_down_ = kHoldDown;
  bool last_raised_ = false;
};

// One human-readable sentence.
std::string DecisionText(const SamplingGovernor::Decision& decision, const plan::Sampling& in_force, double budget,
                         int64_t step_interval);

}  // namespace stepwatch::budget
