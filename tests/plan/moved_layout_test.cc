#include "src/plan/moved_layout.h"

#include "tests/catch.h"

namespace stepwatch::plan {
namespace {

TEST_CASE("a layout on a model that was indexed anew keeps its sites in their order, each with its owner's new place") {
  SiteIndex was;
  was.modules = {{0, "", "Net", true}, {0, "fc", "Linear", true}, {1, "fc", "Linear", true}};
  was.parameters = {{0, "fc.weight", DType::kFloat32, {2}, true}, {0, "fc.bias", DType::kFloat32, {2}, true}};
  SiteIndex now;
  now.modules = {
      {0, "", "Net", true}, {0, "lora", "Linear", true}, {1, "fc", "Linear", true}, {0, "fc", "Linear", true}};
  now.parameters = {{0, "lora.weight", DType::kFloat32, {2}, true}, {0, "fc.weight", DType::kFloat32, {2}, true}};
  RecordLayout layout;
  layout.plan_id = 7;
  layout.sites = {{SiteKind::kActv, Port::kInput, 1, 0, "fc.input"},
                  {SiteKind::kActvGrad, Port::kOutput, 2, 1, "fc.output"},
                  {SiteKind::kGradReduced, Port::kNone, 0, 0, "fc.weight"},
                  {SiteKind::kGradReduced, Port::kNone, 1, 0, "fc.bias"}};
  const auto moved = MovedLayout(layout, was, now);
  REQUIRE(moved.sites.size() == 4);
  CHECK(moved.plan_id == 7);
  CHECK(moved.sites[0].owner == 3);
  CHECK(moved.sites[1].owner == 2);
  CHECK(moved.sites[2].owner == 1);
  CHECK(moved.sites[3].owner == kNoOwner);
  CHECK(moved.sites[3].name == "fc.bias");
}

}  // namespace
}  // namespace stepwatch::plan
