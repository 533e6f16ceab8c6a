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
  CHECK(TagOf(SiteKind::kAdamUpdate, record) == "1:fc.x/rank3/adam_update");
  CHECK(TagOf(SiteKind::kAdamRatio, record) == "1:fc.x/rank3/adam_ratio");
  CHECK(TagOf(SiteKind::kAttention, record) == "1:fc.x:2/rank3/qkt");
  CHECK(TagOf(SiteKind::kLinear, record) == "1:fc.x/rank3/sr");
  CHECK(TagOf(SiteKind::kRouterWeight, record) == "1:fc.x/rank3/router_weight");
  CHECK(TagOf(SiteKind::kRouterLogit, record) == "1:fc.x:2/rank3/router_logit");
}

TEST_CASE("the tag of a communication operator is its name, the rank and the side of the call") {
  const PlannedSite site{SiteKind::kCommunication, Port::kInput, 0, 0, "all_reduce.pre"};
  Record record;
  record.element = 1;
  CHECK(RecordName(site, record) == "all_reduce.pre_1");
  CHECK(RecordTag(site, false, record, 3) == "all_reduce/rank3/pre_1");
}

TEST_CASE("an L2 feature has columns of its own, all other kinds have those of ops") {
  RecordLayout layout;
  layout.stats = {Stat::kNorm, Stat::kShape, Stat::kDtype};
  const auto columns = [&layout](SiteKind kind) {
    std::string names;
    for (const Stat stat : ColumnsOf(layout, kind)) names += (names.empty() ? "" : " ") + std::string(StatName(stat));
    return names;
  };
  CHECK(columns(SiteKind::kAttention) == "entropy softmax_max");
  CHECK(columns(SiteKind::kLinear) == "sr kernel_norm");
  CHECK(columns(SiteKind::kRouterWeight) == "router_weight_similarity");
  CHECK(columns(SiteKind::kRouterLogit) == "per_token_expert_entropy");
  for (int k = 0; k < kSiteKindCount; ++k)
    if (const auto kind = static_cast<SiteKind>(k); !IsFeature(kind)) CHECK(columns(kind) == "norm shape dtype");
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
