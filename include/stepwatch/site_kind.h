// Kinds of sites: what is seen there. The table at the end holds all that the monitor knows of each kind.
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

// What PlannedSite::owner is an index into.
enum class SiteOwner : uint8_t {
  kModule,     // SiteIndex::modules
  kParameter,  // SiteIndex::parameters
  kOperator,   // SiteIndex::operators
};

// Whether records say in which micro-batch they were seen: a column of CSV files, a part of tags.
enum class MicroSteps : uint8_t {
  kNever,
  kAlways,
  kWithMbsGrad,  // if the config has monitor_mbs_grad
};

// What becomes of several records of one site, element and call in a step.
enum class Repeats : uint8_t {
  kNone,     // there are none
  kReplace,  // the last one counts: a gradient is seen again when more has been added to it
  kJoin,     // they are calls, which make one row of the step
};

enum class SiteRows : uint8_t {
  kOwnFiles,
  kFilesOfOther,  // the rows stand in the files of kMgDirection
  kHeatmap,       // there are no rows but heat maps (HeatmapColumn)
};

inline constexpr size_t kFeatureColumnsMax = 2;

struct SiteKindTraits {
  SiteKind kind;
  const char* name;  // the prefix of its files; in l2_targets the key of a feature
  const char* task;  // how tags name it
  SiteOwner owner;
  MicroSteps micro_steps;
  Repeats repeats;
  SiteRows rows;
  // An L2 feature has columns of its own, which are numbers throughout. Other kinds have 0 here, and those of `ops`.
  size_t column_count = 0;
  Stat columns[kFeatureColumnsMax] = {};
  const char* suffix = "";  // what a feature adds to the module's name
};

// One row for each kind, in their order. Adding a kind adds a row here; CONTRIBUTING.md names the other places.
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
// The kind in whose files the rows stand.
constexpr SiteKind FileKind(SiteKind kind) {
  return TraitsOf(kind).rows == SiteRows::kFilesOfOther ? SiteKind::kMgDirection : kind;
}

}  // namespace stepwatch
