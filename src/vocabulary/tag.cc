#include "stepwatch/tag.h"

namespace stepwatch {
namespace {

constexpr Stat kOfAttention[] = {Stat::kEntropy, Stat::kSoftmaxMax};
constexpr Stat kOfLinear[] = {Stat::kStableRank, Stat::kKernelNorm};
constexpr Stat kOfRouterWeight[] = {Stat::kRouterWeightSimilarity};
constexpr Stat kOfRouterLogit[] = {Stat::kPerTokenExpertEntropy};

template <size_t count>
constexpr Columns Fixed(const Stat (&stats)[count]) {
  return {stats, count};
}

// "all_reduce.post", element 0: "all_reduce/rank3/post_0".
std::string OperatorTag(const PlannedSite& site, const Record& record, int rank) {
  std::string tag = RecordName(site, record);
  const size_t side = site.name.rfind('.');
  if (side == std::string::npos) return tag;
  return tag.replace(side, 1, "/rank" + std::to_string(rank) + "/");
}

}  // namespace

bool HasMicroStep(const RecordLayout& layout, SiteKind kind) {
  switch (kind) {
    case SiteKind::kActv:
    case SiteKind::kActvGrad:
    case SiteKind::kAttention:
    case SiteKind::kRouterLogit: return true;
    case SiteKind::kGradUnreduced: return layout.micro_step_in_grad_unreduced;
    default: return false;
  }
}

Columns ColumnsOf(const RecordLayout& layout, SiteKind kind) {
  switch (kind) {
    case SiteKind::kAttention: return Fixed(kOfAttention);
    case SiteKind::kLinear: return Fixed(kOfLinear);
    case SiteKind::kRouterWeight: return Fixed(kOfRouterWeight);
    case SiteKind::kRouterLogit: return Fixed(kOfRouterLogit);
    default: return {layout.stats.data(), layout.stats.size()};
  }
}

bool IsFeature(SiteKind kind) {
  return kind == SiteKind::kAttention || kind == SiteKind::kLinear || kind == SiteKind::kRouterWeight ||
         kind == SiteKind::kRouterLogit;
}

bool HasHeatmap(SiteKind kind) {
  return kind == SiteKind::kAdamUpdate || kind == SiteKind::kAdamRatio;
}

const char* SiteKindTask(SiteKind kind) {
  switch (kind) {
    case SiteKind::kGradUnreduced: return "acc_grad";
    case SiteKind::kGradReduced: return "post_grad";
    case SiteKind::kMgDirection: return "mg_direction";
    case SiteKind::kAttention: return "qkt";
    case SiteKind::kLinear: return "sr";
    case SiteKind::kRouterWeight: return "router_weight";
    case SiteKind::kRouterLogit: return "router_logit";
    default: return SiteKindName(kind);
  }
}

std::string RecordName(const PlannedSite& site, const Record& record) {
  std::string name = site.name;
  if (record.element != kNoElement) name.append("_").append(std::to_string(record.element));
  if (record.call > 0) name.append("@").append(std::to_string(record.call));
  return name;
}

std::string RecordTag(const PlannedSite& site, bool has_micro_step, const Record& record, int rank) {
  if (site.kind == SiteKind::kCommunication) return OperatorTag(site, record, rank);
  std::string tag = std::to_string(site.chunk);
  tag.append(":").append(RecordName(site, record));
  if (has_micro_step) tag.append(":").append(std::to_string(record.micro_step));
  tag.append("/rank").append(std::to_string(rank)).append("/").append(SiteKindTask(site.kind));
  return tag;
}

std::string RecordTag(const RecordLayout& layout, const Record& record, int rank) {
  const PlannedSite& site = layout.sites[record.site];
  return RecordTag(site, HasMicroStep(layout, site.kind), record, rank);
}

}  // namespace stepwatch
