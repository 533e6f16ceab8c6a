#include "src/drain/kind_costs.h"

#include "tests/catch.h"

namespace stepwatch::drain {
namespace {

using step::StepCost;

constexpr auto kActv = static_cast<size_t>(SiteKind::kActv);
constexpr auto kGrad = static_cast<size_t>(SiteKind::kGradReduced);

StepCost CostOf(int64_t collected, uint64_t actv_ns, uint64_t grad_ns) {
  StepCost cost;
  cost.collected = collected;
  cost.ns[kActv] = actv_ns;
  cost.ns[kGrad] = grad_ns;
  return cost;
}

TEST_CASE("the cost of a kind is that of a collected step of the newest plan that has measured it") {
  KindCosts costs;
  CHECK(costs.PerCollectedStep()[kActv] == 0);
  costs.Add(1, CostOf(6, 2000, 0));
  costs.Add(1, CostOf(4, 3000, 0));
  CHECK(costs.PerCollectedStep()[kActv] == Approx(500e-9));
  CHECK(costs.PerCollectedStep()[kGrad] == 0);
  costs.Add(2, CostOf(100, 0, 20000));
  CHECK(costs.PerCollectedStep()[kActv] == Approx(500e-9));
  CHECK(costs.PerCollectedStep()[kGrad] == Approx(200e-9));
  costs.Add(3, CostOf(1, 7, 0));
  CHECK(costs.PerCollectedStep()[kActv] == Approx(7e-9));
  CHECK(costs.PerCollectedStep()[kGrad] == Approx(200e-9));
}

}  // namespace
}  // namespace stepwatch::drain
