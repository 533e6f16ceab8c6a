// The names of the public enumerations: complete and distinct.

#include <set>
#include <string>

#include "stepwatch/event.h"
#include "stepwatch/record.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/statistics.h"
#include "stepwatch/tensor_view.h"
#include "tests/catch.h"

namespace stepwatch {
namespace {

template <class Enum, class Name>
void CheckDistinct(int count, Name name) {
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) {
    const char* text = name(static_cast<Enum>(i));
    REQUIRE(text != nullptr);
    CHECK(std::string(text) != "");
    CHECK(names.insert(text).second);
  }
}

TEST_CASE("every enumerator has a name of its own") {
  CheckDistinct<DType>(static_cast<int>(DType::kOther) + 1, DTypeName);
  CheckDistinct<Stat>(kStatCount, StatName);
  CheckDistinct<SiteKind>(kSiteKindCount, SiteKindName);
  CheckDistinct<DropReason>(kDropReasonCount, DropReasonName);
  CheckDistinct<EventKind>(static_cast<int>(EventKind::kNotBegun) + 1, EventKindName);
}

TEST_CASE("names that files and people depend on") {
  CHECK(std::string(StatName(Stat::kNorm)) == "norm");
  CHECK(std::string(StatName(Stat::kDtype)) == "dtype");
  CHECK(std::string(StatName(Stat::kAbsMax)) == "abs_max");
  CHECK(std::string(SiteKindName(SiteKind::kGradReduced)) == "grad_reduced");
  CHECK(std::string(SiteKindName(SiteKind::kMgDirection)) == "other");
  CHECK(std::string(SiteKindName(SiteKind::kRouterLogit)) == "moe_router_logit_hook");
  CHECK(std::string(StatName(Stat::kStableRank)) == "sr");
  CHECK(std::string(StatName(Stat::kPerTokenExpertEntropy)) == "per_token_expert_entropy");
  CHECK(std::string(DropReasonName(DropReason::kSinkFailed)) == "sink_failed");
  CHECK(std::string(EventKindName(EventKind::kWroteBack)) == "wrote_back");
  CHECK(std::string(DTypeName(DType::kFloat8E4M3)) == "torch.float8_e4m3fn");
}

TEST_CASE("an entry of ops is found by its name and by no other, and no L2 feature is one") {
  for (int i = 0; i < kStatCount; ++i) {
    const Stat stat = static_cast<Stat>(i);
    INFO(StatName(stat));
    CHECK(StatFromName(StatName(stat)) == (i < kOpCount ? std::optional(stat) : std::nullopt));
  }
  for (const char* name : {"", "Norm", "norm ", "nor", "unknown"}) CHECK_FALSE(StatFromName(name).has_value());
}

TEST_CASE("every kind belongs to a module, a parameter or a communication operator") {
  for (SiteKind kind : {SiteKind::kActv, SiteKind::kActvGrad, SiteKind::kAttention, SiteKind::kLinear,
                        SiteKind::kRouterWeight, SiteKind::kRouterLogit})
    CHECK(OwnerOf(kind) == SiteOwner::kModule);
  for (SiteKind kind : {SiteKind::kGradUnreduced, SiteKind::kParamUpdated, SiteKind::kExpAvg, SiteKind::kMgDirection})
    CHECK(OwnerOf(kind) == SiteOwner::kParameter);
  CHECK(OwnerOf(SiteKind::kCommunication) == SiteOwner::kOperator);
}

TEST_CASE("element sizes and integer dtypes") {
  CHECK(ElementSize(DType::kFloat64) == 8);
  CHECK(ElementSize(DType::kBFloat16) == 2);
  CHECK(ElementSize(DType::kBool) == 1);
  CHECK(ElementSize(DType::kOther) == 0);
  CHECK(IsIntegral(DType::kInt64));
  CHECK(IsIntegral(DType::kBool));
  CHECK_FALSE(IsIntegral(DType::kFloat8E5M2));
  CHECK_FALSE(IsIntegral(DType::kOther));
}

TEST_CASE("a dense view has row-major strides") {
  const int64_t sizes[] = {2, 3, 4};
  const TensorView view = DenseView(nullptr, DType::kFloat32, sizes, 3);
  CHECK(view.numel == 24);
  CHECK(view.strides[0] == 12);
  CHECK(view.strides[1] == 4);
  CHECK(view.strides[2] == 1);
  CHECK(DenseView(nullptr, DType::kFloat32, nullptr, 0).numel == 1);
}

TEST_CASE(
    "what costs rows or steering is an error, what somebody should look at a warning, the life of a plan neither") {
  CHECK(SeverityOf(EventKind::kDegraded) == EventSeverity::kError);
  for (const EventKind kind : {EventKind::kRefused, EventKind::kWarning, EventKind::kMissing, EventKind::kUnreadable,
                               EventKind::kAlarm, EventKind::kAborted, EventKind::kLimited})
    CHECK(SeverityOf(kind) == EventSeverity::kWarning);
  for (const EventKind kind : {EventKind::kSeen, EventKind::kNote, EventKind::kApplied, EventKind::kRecovered})
    CHECK(SeverityOf(kind) == EventSeverity::kInfo);
}

TEST_CASE("a ledger is balanced when nothing is unaccounted for") {
  Ledger ledger;
  CHECK(ledger.balanced());
  ledger.produced = 10;
  ledger.written = 7;
  ledger.dropped[static_cast<size_t>(DropReason::kLate)] = 2;
  CHECK_FALSE(ledger.balanced());
  ledger.dropped[static_cast<size_t>(DropReason::kRingFull)] = 1;
  CHECK(ledger.balanced());
  CHECK(ledger.dropped_total() == 3);
}

}  // namespace
}  // namespace stepwatch
