// Counts of elements by size, taken in the same read as the statistics. Exact: histograms of one kind, merged in any
// grouping, equal the histogram of all elements.
#pragma once

#include <cstdint>
#include <vector>

#include "stepwatch/status.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::kernels {

class Histogram {
 public:
  // Bin k counts 2^(kExponentMin + k) <= |x| < 2^(kExponentMin + k + 1). Every finite fp32, fp16, bf16 and fp8 number
  // but 0 has a bin.
  static constexpr int kExponentMin = -149;
  static constexpr int kExponentMax = 127;
  static Histogram Exponents();

  // `bins` equal bins over [low, high]; each holds its lower edge, the last one `high` as well. kInvalid: no bins, more
  // than kBinsMax, or low >= high, or one of them not finite.
  static constexpr int kBinsMax = 4096;
  static Result<Histogram> Linear(double low, double high, int bins);

  // Counts `count` packed elements at any address, each of which occurs `times` times in its tensor. One thread at a
  // time; never allocates.
  void Add(DType dtype, const void* data, int64_t count, int64_t times = 1);
  // kInvalid: the bins differ.
  Status Merge(const Histogram& other);

  // Elements in each bin, from low to high.
  const std::vector<int64_t>& counts() const { return counts_; }
  // Outside of the bins. With exponent bins: `below` are smaller than the first one but not 0, `above` finite.
  // With linear bins `zeros` is 0, and infinities are below or above.
  int64_t below() const { return below_; }
  int64_t above() const { return above_; }
  int64_t zeros() const { return zeros_; }
  int64_t nans() const { return nans_; }
  int64_t infs() const { return infs_; }

 private:
  Histogram(bool linear, double low, double high, int bins);
  template <class Format>
  void AddExponents(const std::byte* data, int64_t count, int64_t times);
  template <class Format>
  void AddLinear(const std::byte* data, int64_t count, int64_t times);

  bool linear_;
  double low_;
  double high_;
  std::vector<int64_t> counts_;
  int64_t below_ = 0, above_ = 0, zeros_ = 0, nans_ = 0, infs_ = 0;
};

}  // namespace stepwatch::kernels
