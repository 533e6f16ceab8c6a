#include "stepwatch/tag.h"

#include "tests/catch.h"

namespace stepwatch {
namespace {

std::string TagOf(SiteKind kind, const Record& record, bool every_micro_batch = false) {
  RecordLayout layout;
  layout.micro_step_in_grad_unreduced = every_micro_batch;
  layout.sites.push_back({kind, Port::kNone, 0, 1, "fc.x"});
  return RecordTag(layout, record, 3);
}

TEST_CASE("a tag is chunk, name, micro-step where the kind has one, rank and task") {
  Record record;
  record.micro_step = 2;
  CHECK(TagOf(SiteKind::kActv, record) == "1:fc.x:2/rank3/actv");
  CHECK(TagOf(SiteKind::kActvGrad, record) == "1:fc.x:2/rank3/actv_grad");
  CHECK(TagOf(SiteKind::kGradUnreduced, record) == "1:fc.x/rank3/acc_grad");
  CHECK(TagOf(SiteKind::kGradUnreduced, record, true) == "1:fc.x:2/rank3/acc_grad");
  CHECK(TagOf(SiteKind::kGradReduced, record, true) == "1:fc.x/rank3/post_grad");
  CHECK(TagOf(SiteKind::kParamOrigin, record) == "1:fc.x/rank3/param_origin");
  CHECK(TagOf(SiteKind::kExpAvgSq, record) == "1:fc.x/rank3/exp_avg_sq");
  CHECK(TagOf(SiteKind::kMgDirection, record) == "1:fc.x/rank3/mg_direction");
}

TEST_CASE("element and call are part of the name") {
  Record record;
  record.element = 1;
  CHECK(TagOf(SiteKind::kActv, record) == "1:fc.x_1:0/rank3/actv");
  record.call = 2;
  CHECK(TagOf(SiteKind::kActv, record) == "1:fc.x_1@2:0/rank3/actv");
}

}  // namespace
}  // namespace stepwatch
