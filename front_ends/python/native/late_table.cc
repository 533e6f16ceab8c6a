#include "front_ends/python/native/late_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

namespace stepwatch::python {
namespace {

// A ticket is the number of its claim above that of its slot.
constexpr uint64_t kSlotBits = 20;

int PartsOfCount(bool are_single) {
  return are_single ? 2 : 1;
}

int PartsOfExtreme(bool is_integral, bool are_single) {
  return !is_integral ? 1 : are_single ? 3 : 2;
}

// A result of zero is +0.0, and every NaN is the same NaN.
double Tidy(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value + 0.0;
}

// From sums, as in CPU memory. The result of a constant tensor is exactly 0.
double StandardDeviation(double norm, double sum, double n, double min, double max) {
  if (n < 2) return std::numeric_limits<double>::quiet_NaN();
  if (min == max && std::isfinite(min)) return 0;
  const double variance = (norm * norm - sum * (sum / n)) / (n - 1);
  return std::isfinite(variance) ? std::sqrt(std::max(variance, 0.0)) : std::numeric_limits<double>::quiet_NaN();
}

// Reads the numbers one after the other.
class Numbers {
 public:
  Numbers(uint8_t columns, const double* numbers, bool are_single)
      : columns_(columns), next_(numbers), are_single_(are_single) {}
  bool Has(LateColumn column) const { return (columns_ & column) != 0; }
  double Real() { return *next_++; }
  int64_t Count() { return Joined(PartsOfCount(are_single_)); }
  int64_t Extreme() { return Joined(PartsOfExtreme(true, are_single_)); }

 private:
  int64_t Joined(int parts) {
    const int bits = are_single_ ? 24 : 32;
    auto joined = static_cast<uint64_t>(static_cast<int64_t>(*next_++));
    while (--parts > 0) joined = (joined << bits) + static_cast<uint64_t>(static_cast<int64_t>(*next_++));
    return static_cast<int64_t>(joined);
  }

  const uint8_t columns_;
  const double* next_;
  const bool are_single_;
};

void TakeExtremes(Numbers* numbers, bool are_integral, bool has_nan_norm, Statistics* statistics) {
  statistics->integral = are_integral;
  if (are_integral) {
    statistics->min_int = numbers->Extreme();
    statistics->max_int = numbers->Extreme();
    statistics->min = static_cast<double>(statistics->min_int);
    statistics->max = static_cast<double>(statistics->max_int);
  } else {
    // Some devices do not propagate NaN in both; all do in the norm.
    const double least = numbers->Real(), greatest = numbers->Real();
    const bool has_nan = std::isnan(least) || std::isnan(greatest) || has_nan_norm;
    statistics->min = has_nan ? std::numeric_limits<double>::quiet_NaN() : Tidy(least);
    statistics->max = has_nan ? std::numeric_limits<double>::quiet_NaN() : Tidy(greatest);
  }
  statistics->abs_max = std::max(std::abs(statistics->min), std::abs(statistics->max));
}

}  // namespace

bool LatePage::Read(size_t cell, double* number) const noexcept {
  if (are_single_) {
    const int32_t bits = __atomic_load_n(reinterpret_cast<const int32_t*>(cells_) + cell, __ATOMIC_ACQUIRE);
    float single = 0;
    std::memcpy(&single, &bits, sizeof single);
    *number = static_cast<double>(single);
    return bits != kUnwrittenSingle;
  }
  const int64_t bits = __atomic_load_n(reinterpret_cast<const int64_t*>(cells_) + cell, __ATOMIC_ACQUIRE);
  std::memcpy(number, &bits, sizeof bits);
  return bits != kUnwritten;
}

int CellsOf(const LateRow& row, uint8_t columns, bool are_single) noexcept {
  int cells = 0;
  for (const LateColumn column : {kLateNorm, kLateSum}) cells += (columns & column) != 0;
  for (const LateColumn column : {kLateMin, kLateMax})
    if ((columns & column) != 0) cells += PartsOfExtreme(row.is_integral, are_single);
  for (const LateColumn column : {kLateZeros, kLateNans, kLateInfs, kLateAgreement})
    if ((columns & column) != 0) cells += PartsOfCount(are_single);
  return cells;
}

Statistics StatisticsOf(const LateRow& row, uint8_t columns, const double* cells, bool are_single) noexcept {
  Numbers numbers(columns, cells, are_single);
  Statistics statistics;
  statistics.numel = row.numel;
  const auto n = static_cast<double>(row.numel);
  if (numbers.Has(kLateAgreement)) {
    statistics.mean = (static_cast<double>(numbers.Count()) / n + 1) / 2;
    return statistics;
  }
  statistics.norm = numbers.Has(kLateNorm) ? Tidy(numbers.Real()) : std::numeric_limits<double>::quiet_NaN();
  const double sum = numbers.Has(kLateSum) ? numbers.Real() : 0;
  if (numbers.Has(kLateSum)) statistics.mean = Tidy(sum / n);
  const bool has_nan_norm = numbers.Has(kLateNorm) && std::isnan(statistics.norm);
  if (numbers.Has(kLateMin)) TakeExtremes(&numbers, row.is_integral, has_nan_norm, &statistics);
  if (numbers.Has(kLateZeros)) statistics.zeros = static_cast<double>(numbers.Count()) / n;
  statistics.nans = numbers.Has(kLateNans) ? numbers.Count() : -1;
  statistics.infs = numbers.Has(kLateInfs) ? numbers.Count() : -1;
  if (numbers.Has(kLateNorm) && numbers.Has(kLateSum) && numbers.Has(kLateMin))
    statistics.std_dev = StandardDeviation(statistics.norm, sum, n, statistics.min, statistics.max);
  return statistics;
}

bool LateTable::Grow() noexcept {
  const size_t chunk = made_ / kChunk;
  if (chunk == kChunksMax) return false;
  chunks_[chunk].reset(new (std::nothrow) Slot[kChunk]);
  if (chunks_[chunk] == nullptr) return false;
  made_ += kChunk;
  return true;
}

uint64_t LateTable::Claim(const LateRow& row) noexcept {
  if (in_use_.load(std::memory_order_relaxed) >= made_ && !Grow()) return 0;
  for (size_t tries = 0; tries < made_; ++tries) {
    const size_t at = next_ < made_ ? next_ : 0;
    next_ = at + 1;
    Slot& slot = chunks_[at / kChunk][at % kChunk];
    if (slot.owner.load(std::memory_order_acquire) != 0) continue;
    slot.row = row;
    slot.is_sent.store(false, std::memory_order_relaxed);
    const uint64_t ticket = ++claims_ << kSlotBits | at;
    slot.owner.store(ticket, std::memory_order_release);
    in_use_.fetch_add(1, std::memory_order_relaxed);
    return ticket;
  }
  return 0;
}

LateTable::Slot* LateTable::Find(uint64_t ticket) const noexcept {
  if (ticket == 0) return nullptr;
  const size_t at = ticket & ((uint64_t{1} << kSlotBits) - 1);
  Slot& slot = chunks_[at / kChunk][at % kChunk];
  return slot.owner.load(std::memory_order_acquire) == ticket ? &slot : nullptr;
}

bool LateTable::InUse(uint64_t ticket) const noexcept {
  return Find(ticket) != nullptr;
}

// A slot that is discarded meanwhile keeps the values written here until the next Claim, which comes only afterwards.
void LateTable::Publish(uint64_t ticket, const LateCells& cells) noexcept {
  Slot* const slot = Find(ticket);
  if (slot == nullptr) return;
  slot->cells = cells;
  slot->is_sent.store(true, std::memory_order_release);
}

bool LateTable::Harvest(uint64_t ticket, Statistics* statistics) noexcept {
  Slot* const slot = Find(ticket);
  if (slot == nullptr || !slot->is_sent.load(std::memory_order_acquire)) return false;
  const LateCells& cells = slot->cells;
  const int count = CellsOf(slot->row, cells.columns, cells.page.are_single());
  std::array<double, kLateCellsMax> numbers{};
  for (int i = 0; i < count; ++i)
    if (!cells.page.Read(cells.first + static_cast<size_t>(i) * cells.stride, &numbers[static_cast<size_t>(i)]))
      return false;
  *statistics = StatisticsOf(slot->row, cells.columns, numbers.data(), cells.page.are_single());
  Discard(ticket);
  return true;
}

void LateTable::Discard(uint64_t ticket) noexcept {
  Slot* const slot = Find(ticket);
  if (slot == nullptr) return;
  uint64_t owner = ticket;
  if (slot->owner.compare_exchange_strong(owner, 0, std::memory_order_release, std::memory_order_relaxed))
    in_use_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace stepwatch::python
