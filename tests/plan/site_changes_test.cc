// The sites that one plan hooks and another does not, and the cost of a collected step.

#include "src/plan/site_changes.h"

#include <string>

#include "src/plan/plan_cost.h"
#include "tests/plan/compiled.h"

namespace stepwatch::plan {
namespace {

using config::Config;

SiteIndex ChangingModel(int layers) {
  SiteIndex index;
  for (int i = 0; i < layers; ++i) {
    const std::string name = "layers." + std::to_string(i);
    index.modules.push_back({0, name, "Linear", true});
    index.parameters.push_back({0, name + ".weight", DType::kFloat32, {4, 8}, true});
  }
  return index;
}

std::string ChangesText(const Plan* was, const Plan* now) {
  std::string text;
  for (const SiteChanges& each : SiteChangesOf(was, now))
    text += std::string(SiteKindName(each.kind)) + " +" + std::to_string(each.added) + " -" +
            std::to_string(each.removed) + " =" + std::to_string(each.kept) + "\n";
  return text;
}

TEST_CASE("sites are added, removed and kept by kind") {
  Config was, now;
  was.ops = now.ops = {Stat::kNorm};
  was.wg_distribution = now.wg_distribution = true;
  was.mv_distribution = true;
  now.xy_distribution = now.all_xy = now.forward_only = true;
  now.ops = {Stat::kMax};  // is no other site
  const CompiledPlan before = Compile(was, ChangingModel(2)), after = Compile(now, ChangingModel(2));
  CHECK(ChangesText(before.plan.get(), after.plan.get()) ==
        "actv +4 -0 =0\ngrad_unreduced +0 -0 =2\ngrad_reduced +0 -0 =2\nexp_avg +0 -2 =0\nexp_avg_sq +0 -2 =0\n");
  CHECK(ChangesText(before.plan.get(), before.plan.get()).find("+0 -0 =2") != std::string::npos);
  CHECK(ChangesText(nullptr, nullptr).empty());
  CHECK(ChangesText(nullptr, after.plan.get()) == "actv +4 -0 =0\ngrad_unreduced +2 -0 =0\ngrad_reduced +2 -0 =0\n");
  CHECK(ChangesText(after.plan.get(), nullptr) == "actv +0 -4 =0\ngrad_unreduced +0 -2 =0\ngrad_reduced +0 -2 =0\n");
}

TEST_CASE("a site is the same in a model that has grown") {
  Config config;
  config.ops = {Stat::kNorm};
  config.wg_distribution = true;
  const CompiledPlan before = Compile(config, ChangingModel(2)), after = Compile(config, ChangingModel(3));
  CHECK(ChangesText(before.plan.get(), after.plan.get()) == "grad_unreduced +1 -0 =2\ngrad_reduced +1 -0 =2\n");
}

TEST_CASE("a collected step costs rows and the bytes of parameters") {
  Config config;
  config.ops = {Stat::kNorm};
  config.wg_distribution = config.monitor_mbs_grad = true;
  const SiteIndex model = ChangingModel(2);
  const PlanCost cost = CostOfAll(CostsByGroup(*Compile(config, model).plan, model, 3));
  CHECK(cost.sites == 4);
  CHECK(cost.rows == 2 * 3 + 2);
  CHECK(cost.bytes == (2 * 3 + 2) * 4 * 8 * 4);
}

}  // namespace
}  // namespace stepwatch::plan
