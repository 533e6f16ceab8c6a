// Cost of each kind of sites per collected step, from the newest plan that has measured it. Pure.
#pragma once

#include <array>
#include <cstddef>

#include "src/step/step_cost.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::drain {

class KindCosts {
 public:
  // Adds the cost of steps of this plan; those of earlier plans must have been added.
  void Add(PlanId plan_id, const step::StepCost& cost) {
    if (plan_id != plan_id_) {
      known_ = PerCollectedStep();
      plan_id_ = plan_id;
      of_plan_ = {};
    }
    of_plan_.Add(cost);
  }
  // Seconds, by position; 0: unknown.
  std::array<double, step::kCostCount> PerCollectedStep() const {
    std::array<double, step::kCostCount> costs = known_;
    for (size_t i = 0; i < costs.size(); ++i)
      if (of_plan_.ns[i] > 0 && of_plan_.collected > 0)
        costs[i] = static_cast<double>(of_plan_.ns[i]) * 1e-9 / static_cast<double>(of_plan_.collected);
    return costs;
  }

 private:
  PlanId plan_id_ = 0;
  step::StepCost of_plan_;
  std::array<double, step::kCostCount> known_{};  // from earlier plans
};

}  // namespace stepwatch::drain
