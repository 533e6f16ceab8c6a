// Decides how much less is collected than the config asks for, so that measuring stays within its budget.
//
// Values in, values out: from the cost of collected steps and the length of steps without it follows another sampling,
// or none. docs/use/budget.md describes the rules.
//
// The budget is on the mean over all steps, so the interval that it needs is known as soon as the cost of a collected
// step and the length of a step are, without a search. Both are means over a window of collected steps, never
// one step against one step. A first collected step has costs that come once, and is left out; one that stands alone
// far above the others has no effect until a second one comes. When the last steps are all above, or all below, all
// that were before them, the job has changed, and earlier steps count no more.
//
// Lowering is done at once, and with a margin. Raising needs a greater one and waits for some collected steps since
// the last change, twice as many each time that a raise had to be taken back.
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
  // On the interval of the config; if that is not enough for the budget, kinds are left out.
  static constexpr int64_t kFactorMax = 1000;
  // Collected steps that the means are over, and those that a decision needs.
  static constexpr size_t kWindow = 32;
  static constexpr size_t kWindowMax = 256;
  static constexpr size_t kSamplesMin = 3;
  // Collected steps from a change to the first raise after it.
  static constexpr int64_t kHoldDown = 6;
  static constexpr int64_t kHoldDownMax = 1024;

  struct Limits {
    double percent = 1;         // of the training time: that of the steps less the measuring in them
    int64_t step_interval = 1;  // of the config
    int64_t longest_every = 1;  // of its groups: so many collected steps pass until all is seen
  };
  // One collected step or a few, with the steps since the collected one before.
  struct Measured {
    step::StepCost cost;
    bool is_first = false;  // the first of its plan
  };
  struct Decision {
    plan::Sampling sampling;
    bool lowers = false;
    double percent = 0;                    // expected without it
    double percent_then = 0;               // expected with it
    std::vector<SiteKind> most_expensive;  // that are collected without it, at most three
  };

  explicit SamplingGovernor(const Limits& limits);

  // A measurement while this sampling was in force.
  void Add(const Measured& measured, const plan::Sampling& sampling);
  // The change of the sampling in force, if one is due. Another call before the next Add returns the same; a decision
  // that is not carried out is made again.
  std::optional<Decision> Decide(const plan::Sampling& in_force) const;
  // The decision is carried out: later measurements come under it, or are from before it and known by that.
  void Follow(const Decision& decision, const plan::Sampling& in_force);

  // Of the last steps, one-time costs and all, in per cent of the training time.
  std::optional<double> spent_percent() const;
  // Expected of the sampling in force; nullopt before enough is known.
  std::optional<double> percent(const plan::Sampling& in_force) const;
  // Over the budget although no reduction is left.
  bool is_exhausted(const plan::Sampling& in_force) const;
  int64_t hold_down() const { return hold_down_; }

 private:
  struct Sample {
    Costs cost{};      // of a collected step
    double total = 0;  // of these
    double step = 0;   // seconds of a step, without them
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
  std::deque<Sample> window_;       // of samplings with the same kinds
  std::vector<SiteKind> left_out_;  // that these are without
  std::deque<Sample> last_;         // for spent_percent
  Costs believed_{};                // of kinds that are left out, as they were when they last were not
  int64_t since_change_ = 0;        // collected steps that count
  int64_t hold_down_ = kHoldDown;
  bool last_raised_ = false;
};

// One sentence for people.
std::string DecisionText(const SamplingGovernor::Decision& decision, const plan::Sampling& in_force, double budget,
                         int64_t step_interval);

}  // namespace stepwatch::budget
