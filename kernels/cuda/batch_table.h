// A batch whose descriptors lie in device memory. Tensors that come again (weights, moments, flat gradients) are
// neither described nor uploaded again.
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

  // Returns false if the device has not enough memory.
  static bool Allocate(Driver* driver, BatchTable* table);

  // True if all tensors are at the same addresses with the same shapes.
  bool Holds(const DeviceItem* items, size_t count) const noexcept;
  // Sets the table to `items`, without entries.
  void Begin(const DeviceItem* items, size_t count) noexcept;
  bool Upload(Driver* driver, Stream stream) noexcept;

  // Facts of an item that Enqueue needs beside its entry.
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
  TicketRing::Range tickets;  // of the last launch: until they are written, the device reads the table
  Stream stream = nullptr;    // the stream of the upload
  uint64_t last_use = 0;
};

}  // namespace stepwatch::kernels::cuda
