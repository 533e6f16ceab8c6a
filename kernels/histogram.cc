#include "kernels/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "kernels/formats.h"

namespace stepwatch::kernels {
namespace {

constexpr int kExponentBins = Histogram::kExponentMax - Histogram::kExponentMin + 1;
constexpr int kLowest = 0;                   // smaller than the first bin, 0 included
constexpr int kHighest = kExponentBins + 1;  // beyond the last bin, infinities and NaN included

// Successive elements that fall into one bin would wait for each other's counts, so neighbours have different tables.
// Counts of a part fit in 32 bits.
constexpr size_t kTables = 4;
constexpr int64_t kHistogramPart = 1 << 20;

int ExponentSlot(double x) {
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(x) >> 52 & 0x7ff) - 1023;
  return std::clamp(exponent - Histogram::kExponentMin + 1, kLowest, kHighest);
}

}  // namespace

Histogram::Histogram(bool linear, double low, double high, int bins)
    : linear_(linear), low_(low), high_(high), counts_(static_cast<size_t>(bins)) {}

Histogram Histogram::Exponents() {
  return Histogram(false, 0, 0, kExponentBins);
}

Result<Histogram> Histogram::Linear(double low, double high, int bins) {
  if (bins < 1 || bins > kBinsMax)
    return Status(StatusCode::kInvalid,
                  "a histogram has " + std::to_string(bins) + " bins; accepted: 1 to " + std::to_string(kBinsMax));
  if (!std::isfinite(low) || !std::isfinite(high) || !std::isfinite(high - low) || low >= high)
    return Status(StatusCode::kInvalid, "a histogram goes from " + std::to_string(low) + " to " + std::to_string(high) +
                                            "; accepted: two finite numbers, the lower one first");
  return Histogram(true, low, high, bins);
}

void Histogram::Add(DType dtype, const void* data, int64_t count, int64_t times) {
  VisitFormat(dtype, [&](auto format) {
    using Format = decltype(format);
    const auto* bytes = static_cast<const std::byte*>(data);
    for (int64_t done = 0; done < count; done += kHistogramPart) {
      const std::byte* part = bytes + done * static_cast<int64_t>(sizeof(typename Format::Raw));
      const int64_t length = std::min(kHistogramPart, count - done);
      if (linear_)
        AddLinear<Format>(part, length, times);
      else
        AddExponents<Format>(part, length, times);
    }
  });
}

template <class Format>
void Histogram::AddExponents(const std::byte* data, int64_t count, int64_t times) {
  std::array<std::array<uint32_t, kExponentBins + 2>, kTables> tables{};
  int64_t zeros = 0, nans = 0, infs = 0;
  for (int64_t i = 0; i < count; ++i, data += sizeof(typename Format::Raw)) {
    const double x = static_cast<double>(Format::Load(data));
    ++tables[static_cast<size_t>(i) % kTables][static_cast<size_t>(ExponentSlot(x))];
    zeros += x == 0;
    nans += x != x;
    infs += std::isinf(x);
  }
  for (const auto& table : tables) {
    for (size_t bin = 0; bin < counts_.size(); ++bin) counts_[bin] += times * table[bin + 1];
    below_ += times * table[kLowest];
    above_ += times * table[kHighest];
  }
  below_ -= times * zeros;
  above_ -= times * (nans + infs);
  zeros_ += times * zeros;
  nans_ += times * nans;
  infs_ += times * infs;
}

template <class Format>
void Histogram::AddLinear(const std::byte* data, int64_t count, int64_t times) {
  const double bins = static_cast<double>(counts_.size());
  const double per_unit = bins / (high_ - low_);
  for (int64_t i = 0; i < count; ++i, data += sizeof(typename Format::Raw)) {
    const double x = static_cast<double>(Format::Load(data));
    if (x >= low_ && x <= high_) {
      counts_[static_cast<size_t>(std::min((x - low_) * per_unit, bins - 1))] += times;
    } else if (x < low_) {
      below_ += times;
    } else if (x > high_) {
      above_ += times;
    } else {
      nans_ += times;
    }
    if (std::isinf(x)) infs_ += times;
  }
}

Status Histogram::Merge(const Histogram& other) {
  if (linear_ != other.linear_ || low_ != other.low_ || high_ != other.high_ || counts_.size() != other.counts_.size())
    return Status(StatusCode::kInvalid, "two histograms with different bins cannot be merged");
  for (size_t bin = 0; bin < counts_.size(); ++bin) counts_[bin] += other.counts_[bin];
  below_ += other.below_;
  above_ += other.above_;
  zeros_ += other.zeros_;
  nans_ += other.nans_;
  infs_ += other.infs_;
  return Status();
}

}  // namespace stepwatch::kernels
