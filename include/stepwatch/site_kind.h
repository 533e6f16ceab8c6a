// Kinds of sites. The table at the end holds all properties of each kind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stepwatch/statistics.h"

namespace stepwatch {

enum class SiteKind : uint8_t {
  kActv,           // a module's input or output in the forward pass
  kActvGrad,       // the gradient of such an input or output
  kGradUnreduced,  // a parameter's gradient before any reduction
  kGradReduced,    // a parameter's gradient as the optimizer's step finds it
  kParamOrigin,    // a parameter before the update
  kParamUpdated,   // a parameter after the update
  kExpAvg,         // Adam's first moment, before the update
  kExpAvgSq,       // Adam's second moment, before the update
  kMgDirection,    // agreement of the signs of gradient and first moment, before the update
  kAttention,      // L2 feature of an attention module: entropy and maxima of its scores
  kLinear,         // L2 feature of a module's weight: stable rank and spectral norm
  kRouterWeight,   // L2 feature of a mixture-of-experts router: similarity of its experts
  kRouterLogit,    // L2 feature of such a router: entropy of its choices
  kCommunication,  // the tensors of a communication operator, before or after it
  kAdamUpdate,     // Adam's update without the learning rate, from its state before the update
  kAdamRatio,      // the same without eps: first moment by the root of the second
};
inline constexpr int kSiteKindCount = 16;

// List into which PlannedSite::owner is an index.
enum class SiteOwner : uint8_t {
  kModule,     // SiteIndex::modules
  kParameter,  // SiteIndex::parameters
  kOperator,   // SiteIndex::operators
};

// Whether records have a micro-batch: a column of CSV files, a part of tags.
enum class MicroSteps : uint8_t {
  kNever,
  kAlways,
  kWithMbsGrad,  // if the config sets monitor_mbs_grad
};

// Treatment of several records of one site, element and call in a step.
enum class Repeats : uint8_t {
  kNone,     // several records do not occur
  kReplace,  // the last one counts: a gradient is observed again after more was added to it
  kJoin,     // they are calls, joined into one row of the step
};

enum class SiteRows : uint8_t {
  kOwnFiles,
  kFilesOfOther,  // rows go to the files of kMgDirection
  kHeatmap,       // no rows, only heat maps (HeatmapColumn)
};

inline constexpr size_t kFeatureColumnsMax = 2;

struct SiteKindTraits {
  SiteKind kind;
  const char* name;  // prefix of its files; key of a feature in l2_targets
  const char* task;  // its name in tags
  SiteOwner owner;
  MicroSteps micro_steps;
  Repeats repeats;
  SiteRows rows;
  // Columns of an L2 feature, all of them numbers. Other kinds have 0 here and use the columns of `ops`.
  size_t column_count = 0;
  Stat columns[kFeatureColumnsMax] = {};
  const char* suffix = "";  // appended to the module's name by a feature
};

// One row per kind, in their order. A new kind needs a row here; CONTRIBUTING.md names the other places.
inline constexpr SiteKindTraits kSiteKindTraits[] = {
    {SiteKind::kActv, "actv", "actv", SiteOwner::kModule, MicroSteps::kAlways, Repeats::kNone, SiteRows::kOwnFiles},
    {SiteKind::kActvGrad, "actv_grad", "actv_grad", SiteOwner::kModule, MicroSteps::kAlways, Repeats::kReplace,
     SiteRows::kOwnFiles},
    {SiteKind::kGradUnreduced, "grad_unreduced", "acc_grad", SiteOwner::kParameter, MicroSteps::kWithMbsGrad,
     Repeats::kReplace, SiteRows::kOwnFiles},
    {SiteKind::kGradReduced, "grad_reduced", "post_grad", SiteOwner::kParameter, MicroSteps::kNever, Repeats::kNone,
     SiteRows::kOwnFiles},
    {SiteKind::kParamOrigin, "param_origin", "param_origin", SiteOwner::kParameter, MicroSteps::kNever, Repeats::kNone,
     SiteRows::kOwnFiles},
    {SiteKind::kParamUpdated, "param_updated", "param_updated", SiteOwner::kParameter, MicroSteps::kNever,
     Repeats::kNone, SiteRows::kOwnFiles},
    {SiteKind::kExpAvg, "exp_avg", "exp_avg", SiteOwner::kParameter, MicroSteps::kNever, Repeats::kNone,
     SiteRows::kOwnFiles},
    {SiteKind::kExpAvgSq, "exp_avg_sq", "exp_avg_sq", SiteOwner::kParameter, MicroSteps::kNever, Repeats::kNone,
     SiteRows::kOwnFiles},
    {SiteKind::kMgDirection, "other", "mg_direction", SiteOwner::kParameter, MicroSteps::kNever, Repeats::kNone,
     SiteRows::kOwnFiles},
    {SiteKind::kAttention,
     "attention_hook",
     "qkt",
     SiteOwner::kModule,
     MicroSteps::kAlways,
     Repeats::kNone,
     SiteRows::kOwnFiles,
     2,
     {Stat::kEntropy, Stat::kSoftmaxMax},
     ".attention"},
    {SiteKind::kLinear,
     "linear_hook",
     "sr",
     SiteOwner::kModule,
     MicroSteps::kNever,
     Repeats::kNone,
     SiteRows::kOwnFiles,
     2,
     {Stat::kStableRank, Stat::kKernelNorm},
     ".linear"},
    {SiteKind::kRouterWeight,
     "moe_router_weight_hook",
     "router_weight",
     SiteOwner::kModule,
     MicroSteps::kNever,
     Repeats::kNone,
     SiteRows::kOwnFiles,
     1,
     {Stat::kRouterWeightSimilarity},
     ".moe_router"},
    {SiteKind::kRouterLogit,
     "moe_router_logit_hook",
     "router_logit",
     SiteOwner::kModule,
     MicroSteps::kAlways,
     Repeats::kNone,
     SiteRows::kOwnFiles,
     1,
     {Stat::kPerTokenExpertEntropy},
     ".moe_router"},
    {SiteKind::kCommunication, "communication", "communication", SiteOwner::kOperator, MicroSteps::kNever,
     Repeats::kJoin, SiteRows::kFilesOfOther},
    {SiteKind::kAdamUpdate, "adam_update", "adam_update", SiteOwner::kParameter, MicroSteps::kNever, Repeats::kNone,
     SiteRows::kHeatmap},
    {SiteKind::kAdamRatio, "adam_ratio", "adam_ratio", SiteOwner::kParameter, MicroSteps::kNever, Repeats::kNone,
     SiteRows::kHeatmap},
};

constexpr bool EveryKindHasItsRow() {
  for (int i = 0; i < kSiteKindCount; ++i)
    if (kSiteKindTraits[i].kind != static_cast<SiteKind>(i)) return false;
  return sizeof(kSiteKindTraits) / sizeof(kSiteKindTraits[0]) == kSiteKindCount;
}
static_assert(EveryKindHasItsRow(), "kSiteKindTraits is in the order of SiteKind");

constexpr const SiteKindTraits& TraitsOf(SiteKind kind) {
  return kSiteKindTraits[static_cast<size_t>(kind)];
}
constexpr const char* SiteKindName(SiteKind kind) {
  return TraitsOf(kind).name;
}
constexpr SiteOwner OwnerOf(SiteKind kind) {
  return TraitsOf(kind).owner;
}
constexpr bool IsFeature(SiteKind kind) {
  return TraitsOf(kind).column_count > 0;
}
constexpr bool HasHeatmap(SiteKind kind) {
  return TraitsOf(kind).rows == SiteRows::kHeatmap;
}
// Returns the kind whose files contain the rows.
constexpr SiteKind FileKind(SiteKind kind) {
  return TraitsOf(kind).rows == SiteRows::kFilesOfOther ? SiteKind::kMgDirection : kind;
}

}  // namespace stepwatch
