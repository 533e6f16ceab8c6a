// Converts tensors to entries of launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/layout.h"

namespace stepwatch::kernels::cuda {

// The view without its device, for the layout of the data alone.
inline TensorView OnCpu(TensorView tensor) {
  tensor.device = Device{};
  return tensor;
}

// Limits of one launch for memory outside of its argument.
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

// Determines how a thread reads the elements of `layout`; sets `shape` for strided access.
Access AccessOf(const Layout& layout, DType dtype, Shape* shape);

// Reads element by element, in the order of `layout`: contiguous if it is flat.
Access ElementAccessOf(const Layout& layout, DType dtype, Shape* shape);

// Fills the caller's arrays with entries and cuts them into segments. Add tensors of one kernel consecutively.
class Packer {
 public:
  static constexpr size_t kSegmentsMax = 64;

  // `tiles_max`, a multiple of kGroupTiles, limits one launch.
  Packer(Entry* entries, size_t entries_max, Shape* shapes, size_t shapes_max, uint32_t tiles_max = kTilesMax)
      : entries_(entries), entries_max_(entries_max), shapes_(shapes), shapes_max_(shapes_max), tiles_max_(tiles_max) {}

  // Returns false, without adding, if there is no room. `layout` is not empty and satisfies CanHold.
  bool Add(const Layout& layout, DType dtype, KernelId kernel, uint32_t result);
  void Clear() { entry_count_ = shape_count_ = segment_count_ = 0; }

  // False for a tensor of half a terabyte or more.
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
