// What each kind of sites takes of a collected step, by the newest plan that has measured it. Pure.
#pragma once

#include <array>
#include <cstddef>

#include "src/step/step_cost.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::drain {

class KindCosts {
 public:
  // Of steps of this plan; those of the plans before it have been added.
  void Add(PlanId plan_id, const step::StepCost& cost) {
    if (plan_id != plan_id_) {
      known_ = PerCollectedStep();
      plan_id_ = plan_id;
      of_plan_ = {};
    }
    of_plan_.Add(cost);
  }
  // Seconds, by place; 0: not known.
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
  std::array<double, step::kCostCount> known_{};  // from the plans before it
};

}  // namespace stepwatch::drain
