// Observations of the captured graphs of one device, by slot: each is written once during a capture, then only read.
// Neither side waits or allocates.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "kernels/kernels.h"
#include "src/device/site_lookup.h"
#include "stepwatch/record.h"

namespace stepwatch::device {

struct CapturedObservation {
  SiteKey site;
  int32_t micro_step = 0;
  uint16_t element = kNoElement;
  uint16_t call = 0;
  DType dtype = DType::kFloat32;
  uint8_t ndim = 0;
  std::array<int64_t, kDimsMax> dims{};
  bool agreement = false;
  kernels::MeasureOptions measure;  // fixed at capture
};

class GraphTable {
 public:
  explicit GraphTable(size_t slots) : slots_(slots), cells_(slots == 0 ? nullptr : new Cell[slots]) {}

  // Any thread, once per slot.
  void Put(size_t slot, const CapturedObservation& observation) noexcept {
    if (slot >= slots_) return;
    cells_[slot].observation = observation;
    cells_[slot].is_there.store(true, std::memory_order_release);
    uint32_t end = end_.load(std::memory_order_relaxed);
    const auto wanted = static_cast<uint32_t>(slot + 1);
    while (end < wanted && !end_.compare_exchange_weak(end, wanted, std::memory_order_release)) {
    }
  }
  // Null: no observation was stored, or it is still being written.
  const CapturedObservation* Find(size_t slot) const noexcept {
    return slot < slots_ && cells_[slot].is_there.load(std::memory_order_acquire) ? &cells_[slot].observation : nullptr;
  }
  // One past the highest slot in use.
  uint32_t end() const noexcept { return end_.load(std::memory_order_acquire); }

 private:
  struct Cell {
    std::atomic<bool> is_there{false};
    CapturedObservation observation;
  };

  const size_t slots_;
  const std::unique_ptr<Cell[]> cells_;
  std::atomic<uint32_t> end_{0};
};

}  // namespace stepwatch::device
