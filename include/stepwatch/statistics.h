// Statistics of one tensor. The table at the end holds all properties of each.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace stepwatch {

// Content of a column. The first twelve are the entries of `ops`; nine of them are msProbe's, with the same
// definitions. The others are L2 features of a module, computed by the front end (see ColumnsOf).
enum class Stat : uint8_t {
  kNorm,
  kMean,
  kMin,
  kMax,
  kZeros,
  kNans,
  kId,
  kShape,
  kDtype,
  kInfs,
  kStd,
  kAbsMax,
  kEntropy,                 // attention: mean over rows
  kSoftmaxMax,              // attention: mean over rows
  kStableRank,              // weight: Frobenius norm / spectral norm
  kKernelNorm,              // weight: spectral norm
  kRouterWeightSimilarity,  // mean cosine similarity of pairs of experts
  kPerTokenExpertEntropy,   // mean over tokens
};
inline constexpr int kOpCount = 12;    // entries of `ops`: the first ones
inline constexpr int kStatCount = 18;  // all

// Comparison with the `eps` of `zeros`. kParity first rounds eps to the tensor's dtype, as torch does; if an eps above
// 0 rounds to 0, as 1e-8 does in fp16, only exact zeros count. kExact compares with eps itself.
enum class EpsMode : uint8_t { kParity, kExact };

// All statistics of one tensor, from one read of its memory. Sums are fp64. With n the element count:
//   norm  sqrt(sum x^2), 0 for an empty tensor        mean  sum x / n, NaN for an empty one
//   min, max, abs_max  NaN if any element is NaN or the tensor is empty
//   zeros  count(|x| < eps) / n, strict; a NaN never counts; NaN for an empty tensor
//   std   sqrt of the unbiased variance (n - 1), NaN for n < 2
struct Statistics {
  int64_t numel = 0;
  double norm = 0;
  double mean = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double abs_max = std::numeric_limits<double>::quiet_NaN();
  double zeros = std::numeric_limits<double>::quiet_NaN();
  double std_dev = std::numeric_limits<double>::quiet_NaN();
  int64_t nans = 0;  // -1: unknown
  int64_t infs = 0;  // -1: unknown
  // Extremes of a non-empty integer or bool tensor, exact beyond 2^53.
  bool integral = false;
  int64_t min_int = 0;
  int64_t max_int = 0;
};

// Rule that joins the values of several calls of a communication operator into the value of their row.
enum class StatMerge : uint8_t {
  kNone,  // no joint value: the column prints nan
  kAverage,
  kRootOfSquares,
  kLeast,
  kGreatest,
  kSum,
};

// Whether alarms check the statistic.
enum class StatJudged : uint8_t {
  kNever,
  kAlways,
  kOfSeveral,  // only for tensors with several elements; NaN by definition for one element
};

struct StatTraits {
  Stat stat;
  const char* name;
  StatMerge merge;
  StatJudged judged;
  bool is_element;  // an element of the tensor, printed as one
  // Member that holds the value. Both set: the integer if the tensor is integral, otherwise the number. Neither set:
  // not a number (shape, dtype), or an L2 feature, which is computed elsewhere.
  double Statistics::*number;
  int64_t Statistics::*integer;
};

// One row per statistic, in the order of Stat. A new one needs a row here; CONTRIBUTING.md names the other places.
inline constexpr StatTraits kStatTraits[] = {
    {Stat::kNorm, "norm", StatMerge::kRootOfSquares, StatJudged::kAlways, false, &Statistics::norm, nullptr},
    {Stat::kMean, "mean", StatMerge::kAverage, StatJudged::kAlways, false, &Statistics::mean, nullptr},
    {Stat::kMin, "min", StatMerge::kLeast, StatJudged::kAlways, true, &Statistics::min, &Statistics::min_int},
    {Stat::kMax, "max", StatMerge::kGreatest, StatJudged::kAlways, true, &Statistics::max, &Statistics::max_int},
    {Stat::kZeros, "zeros", StatMerge::kAverage, StatJudged::kAlways, false, &Statistics::zeros, nullptr},
    {Stat::kNans, "nans", StatMerge::kSum, StatJudged::kAlways, false, nullptr, &Statistics::nans},
    // A scalar has one element, which is also its maximum.
    {Stat::kId, "id", StatMerge::kNone, StatJudged::kNever, true, &Statistics::max, &Statistics::max_int},
    {Stat::kShape, "shape", StatMerge::kNone, StatJudged::kNever, false, nullptr, nullptr},
    {Stat::kDtype, "dtype", StatMerge::kNone, StatJudged::kNever, false, nullptr, nullptr},
    {Stat::kInfs, "infs", StatMerge::kSum, StatJudged::kAlways, false, nullptr, &Statistics::infs},
    {Stat::kStd, "std", StatMerge::kNone, StatJudged::kOfSeveral, false, &Statistics::std_dev, nullptr},
    {Stat::kAbsMax, "abs_max", StatMerge::kGreatest, StatJudged::kAlways, false, &Statistics::abs_max, nullptr},
    {Stat::kEntropy, "entropy", StatMerge::kNone, StatJudged::kAlways, false, nullptr, nullptr},
    {Stat::kSoftmaxMax, "softmax_max", StatMerge::kNone, StatJudged::kAlways, false, nullptr, nullptr},
    {Stat::kStableRank, "sr", StatMerge::kNone, StatJudged::kAlways, false, nullptr, nullptr},
    {Stat::kKernelNorm, "kernel_norm", StatMerge::kNone, StatJudged::kAlways, false, nullptr, nullptr},
    {Stat::kRouterWeightSimilarity, "router_weight_similarity", StatMerge::kNone, StatJudged::kAlways, false, nullptr,
     nullptr},
    {Stat::kPerTokenExpertEntropy, "per_token_expert_entropy", StatMerge::kNone, StatJudged::kAlways, false, nullptr,
     nullptr},
};

constexpr bool EveryStatHasItsRow() {
  for (int i = 0; i < kStatCount; ++i)
    if (kStatTraits[i].stat != static_cast<Stat>(i)) return false;
  return sizeof(kStatTraits) / sizeof(kStatTraits[0]) == kStatCount;
}
static_assert(EveryStatHasItsRow(), "kStatTraits is in the order of Stat");

constexpr const StatTraits& TraitsOf(Stat stat) {
  return kStatTraits[static_cast<int>(stat)];
}
constexpr const char* StatName(Stat stat) {
  return TraitsOf(stat).name;
}
// Returns the entry of `ops` with this name; nullopt if it is unknown.
std::optional<Stat> StatFromName(std::string_view name);

}  // namespace stepwatch
