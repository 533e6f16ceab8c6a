// From tensors to the entries of launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/layout.h"

namespace stepwatch::kernels::cuda {

// The layout of the data, whatever the device.
inline TensorView OnCpu(TensorView tensor) {
  tensor.device = Device{};
  return tensor;
}

// What the tiles of one launch may need beside the launch itself.
inline constexpr uint32_t kTilesMax = 131072;  // 8 GB of data
inline constexpr uint32_t kGroupsMax = 32768;  // group partials, and as many counters

// Entries that one launch measures.
struct Segment {
  KernelId kernel = KernelId::kFloat32;
  DType dtype = DType::kFloat32;  // of the first entry: all of a kernel share their ZeroRule
  uint32_t first_entry = 0;
  uint32_t entry_count = 0;
  uint32_t tile_count = 0;
  uint32_t group_count = 0;  // 0: no entry needs partials
};

// How a thread reads the elements of `layout`; `shape` is set for strided access.
Access AccessOf(const Layout& layout, DType dtype, Shape* shape);

// Each element on its own, in the order of `layout`: side by side if it is flat.
Access ElementAccessOf(const Layout& layout, DType dtype, Shape* shape);

// Fills arrays of the caller's with entries and cuts them into segments. Tensors of one kernel should come in a row.
class Packer {
 public:
  static constexpr size_t kSegmentsMax = 64;

  // `tiles_max`, a multiple of kGroupTiles, is what one launch may have.
  Packer(Entry* entries, size_t entries_max, Shape* shapes, size_t shapes_max, uint32_t tiles_max = kTilesMax)
      : entries_(entries), entries_max_(entries_max), shapes_(shapes), shapes_max_(shapes_max), tiles_max_(tiles_max) {}

  // False: there is no room, and nothing was added. `layout` has elements and at most CanHold.
  bool Add(const Layout& layout, DType dtype, KernelId kernel, uint32_t result);
  void Clear() { entry_count_ = shape_count_ = segment_count_ = 0; }

  // False: a tensor of half a terabyte or more.
  static bool CanHold(const Layout& layout, DType dtype);

  size_t entry_count() const { return entry_count_; }
  size_t shape_count() const { return shape_count_; }
  const Segment* begin() const { return segments_.data(); }
  const Segment* end() const { return segments_.data() + segment_count_; }

 private:
  bool FitsSegment(KernelId kernel, uint32_t tiles, uint32_t groups) const;
  void AddPart(Entry entry, KernelId kernel, uint32_t tiles, uint32_t groups);

  Entry* entries_;
  size_t entries_max_;
  Shape* shapes_;
  size_t shapes_max_;
  uint32_t tiles_max_;
  size_t entry_count_ = 0;
  size_t shape_count_ = 0;
  size_t segment_count_ = 0;
  std::array<Segment, kSegmentsMax> segments_{};
};

}  // namespace stepwatch::kernels::cuda
