// The statistics of one tensor, and their names in `ops`, CSV headers and docs.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace stepwatch {

// What a column holds. The first twelve are the entries of `ops`, nine of them msProbe's, with its meaning; the others
// are the L2 features of a module, which the front end computes (see ColumnsOf).
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
  kEntropy,                 // of attention: mean over rows
  kSoftmaxMax,              // of attention: mean over rows
  kStableRank,              // of a weight: Frobenius norm / spectral norm
  kKernelNorm,              // of a weight: spectral norm
  kRouterWeightSimilarity,  // mean cosine similarity of pairs of experts
  kPerTokenExpertEntropy,   // mean over tokens
};
inline constexpr int kOpCount = 12;    // those that `ops` may name: the first ones
inline constexpr int kStatCount = 18;  // all

const char* StatName(Stat stat);  // "norm", "mean", ...
// An entry of `ops` by its name.
std::optional<Stat> StatFromName(std::string_view name);

// How `eps` of `zeros` is compared. kParity rounds eps to the tensor's dtype first, as torch does: fp16(1e-8) is 0, so
// an all-zero fp16 tensor has zeros 0. kExact compares with eps itself.
enum class EpsMode : uint8_t { kParity, kExact };

// All statistics of one tensor, from one read of it. Sums are fp64. With n the element count:
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
  int64_t nans = 0;
  int64_t infs = 0;
  // The extremes of an integer or bool tensor that is not empty, exact beyond 2^53.
  bool integral = false;
  int64_t min_int = 0;
  int64_t max_int = 0;
};

}  // namespace stepwatch
