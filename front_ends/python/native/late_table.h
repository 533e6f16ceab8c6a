// Tickets of tensors that torch's operators measure on their device, and the places where their numbers arrive.
//
// An asynchronous copy brings the numbers of many tensors into one page of host memory, of float64 or, from a device
// without it, float32. Every cell of a page holds a mark until the copy has written it, and no number equals the mark:
// a reader of the page detects the numbers that are there without a call into any device's driver.
//
// Integers are split into parts, the highest first, that a cell holds exactly: 32 bits in a float64, 24 in a float32. A
// count has one part, or two; an extreme of integers two, or three.
//
// Claim and Publish are called with the GIL held, which orders them; Harvest and Discard from any thread, without it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "stepwatch/late_results.h"

namespace stepwatch::python {

// The measurements of a tensor, one bit each. The cells of a tensor are in this order.
enum LateColumn : uint8_t {
  kLateNorm = 1,
  kLateSum = 2,
  kLateMin = 4,
  kLateMax = 8,
  kLateZeros = 16,
  kLateNans = 32,
  kLateInfs = 64,
  kLateAgreement = 128,  // the sum of the products of signs, with no other measurement
};
inline constexpr int kLateColumns = 8;

inline constexpr int kLateCellsMax = 16;  // of one tensor

// Signalling NaNs, which no operator produces.
inline constexpr int64_t kUnwritten = 0x7ff4'7374'6570'7761;
inline constexpr int32_t kUnwrittenSingle = 0x7fa4'7377;

// The tensor behind a ticket.
struct LateRow {
  int64_t numel = 0;
  bool is_integral = false;  // its extremes are integers
};

// Memory to which a device may be writing.
class LatePage {
 public:
  LatePage() = default;
  LatePage(const void* cells, bool are_single) : cells_(static_cast<const char*>(cells)), are_single_(are_single) {}

  // False: the cell is not written yet.
  bool Read(size_t cell, double* number) const noexcept;
  bool are_single() const { return are_single_; }
  explicit operator bool() const { return cells_ != nullptr; }

 private:
  const char* cells_ = nullptr;
  bool are_single_ = false;  // float32
};

// The cells of a tensor's numbers: `first`, then one each `stride` further.
struct LateCells {
  LatePage page;
  uint8_t columns = 0;  // its measurements: the device may lack operators for the others
  size_t first = 0;
  size_t stride = 1;
};

class LateTable final : public LateResults {
 public:
  // 0: too many are pending, or there is no memory.
  uint64_t Claim(const LateRow& row) noexcept;
  // The memory must stay valid until the ticket is no longer InUse.
  void Publish(uint64_t ticket, const LateCells& cells) noexcept;
  bool InUse(uint64_t ticket) const noexcept;

  bool Harvest(uint64_t ticket, Statistics* statistics) noexcept override;
  void Discard(uint64_t ticket) noexcept override;

 private:
  static constexpr size_t kChunk = 16384;
  static constexpr size_t kChunksMax = 64;  // more than a ring can hold

  struct Slot {
    std::atomic<uint64_t> owner{0};  // the ticket, 0: free
    std::atomic<bool> is_sent{false};
    LateCells cells;  // once is_sent
    LateRow row;
  };

  Slot* Find(uint64_t ticket) const noexcept;
  bool Grow() noexcept;

  std::array<std::unique_ptr<Slot[]>, kChunksMax> chunks_;
  size_t made_ = 0;  // slots
  size_t next_ = 0;
  uint64_t claims_ = 0;
  std::atomic<size_t> in_use_{0};
};

// Number of cells of a tensor.
int CellsOf(const LateRow& row, uint8_t columns, bool are_single) noexcept;
// The statistics of a tensor from its cells; those without a column are unknown.
Statistics StatisticsOf(const LateRow& row, uint8_t columns, const double* numbers, bool are_single) noexcept;

}  // namespace stepwatch::python
