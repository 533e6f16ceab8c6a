// A batch whose descriptors lie in device memory. While the same tensors come back (weights, moments, flat gradients),
// they are neither described nor uploaded again.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/driver.h"
#include "kernels/cuda/packer.h"
#include "kernels/cuda/ticket_ring.h"
#include "kernels/device_engine.h"

namespace stepwatch::kernels::cuda {

struct BatchTable {
  static constexpr size_t kEntriesMax = 2048;
  static constexpr size_t kShapesMax = 512;

  // False: the device has not enough memory.
  static bool Allocate(Driver* driver, BatchTable* table);

  // All tensors are where they were, and of the same shape.
  bool Holds(const DeviceItem* items, size_t count) const noexcept;
  // Sets it to `items`, without entries.
  void Begin(const DeviceItem* items, size_t count) noexcept;
  bool Upload(Driver* driver, Stream stream) noexcept;

  // What Enqueue needs to know of an item beside its entry.
  struct Member {
    TensorView view;
    Layout layout;
    StatusCode code = StatusCode::kOk;
  };

  Entry* entries = nullptr;  // pinned
  Shape* shapes = nullptr;
  Entry* device_entries = nullptr;
  Shape* device_shapes = nullptr;
  std::vector<Member> members;  // the first `count` are used
  size_t count = 0;
  Packer packer{nullptr, 0, nullptr, 0};
  TicketRing::Range tickets;  // of its last launch: until they are written, the device reads the table
  Stream stream = nullptr;    // on which it was uploaded
  uint64_t last_use = 0;
};

}  // namespace stepwatch::kernels::cuda
