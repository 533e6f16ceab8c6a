#include "kernels/cuda/packer.h"

#include <algorithm>

namespace stepwatch::kernels::cuda {
namespace {

uint32_t TilesOf(int64_t count, DType dtype) {
  const int64_t tile = kTileBytes / ElementSize(dtype);
  return static_cast<uint32_t>((count + tile - 1) / tile);
}

// Counts one more: the tensor's own counter follows those of its groups.
uint32_t GroupsOf(uint32_t tiles) {
  return tiles == 1 ? 0 : (tiles + kGroupTiles - 1) / kGroupTiles + 1;
}

bool IsAligned(const std::byte* data) {
  return reinterpret_cast<uintptr_t>(data) % kVectorBytes == 0;
}

// True for runs of whole aligned vectors.
bool InVectors(const Layout& layout, int64_t per_vector) {
  const size_t inner = static_cast<size_t>(layout.ndim - 1);
  if (!IsAligned(layout.data) || layout.strides[inner] != 1 || layout.sizes[inner] % per_vector != 0) return false;
  return std::all_of(layout.strides.begin(), layout.strides.begin() + layout.ndim - 1,
                     [per_vector](int64_t stride) { return stride % per_vector == 0; });
}

void SetShape(const Layout& layout, int64_t element_size, int64_t per_unit, Shape* shape) {
  shape->ndim = layout.ndim;
  for (size_t i = 0; i < static_cast<size_t>(layout.ndim); ++i) {
    shape->sizes[i] = layout.sizes[i];
    shape->strides[i] = layout.strides[i] * element_size;
  }
  shape->sizes[layout.ndim - 1] /= per_unit;
  shape->strides[layout.ndim - 1] *= per_unit;
}

}  // namespace

Access AccessOf(const Layout& layout, DType dtype, Shape* shape) {
  if (layout.flat()) return IsAligned(layout.data) ? Access::kVectors : Access::kNarrow;
  const int64_t per_vector = kVectorBytes / ElementSize(dtype);
  const bool vectors = InVectors(layout, per_vector);
  SetShape(layout, ElementSize(dtype), vectors ? per_vector : 1, shape);
  return vectors ? Access::kStridedVectors : Access::kStrided;
}

Access ElementAccessOf(const Layout& layout, DType dtype, Shape* shape) {
  if (layout.flat()) return IsAligned(layout.data) ? Access::kVectors : Access::kNarrow;
  SetShape(layout, ElementSize(dtype), 1, shape);
  return Access::kStrided;
}

bool Packer::CanHold(const Layout& layout, DType dtype) {
  const int64_t groups_of_bytes = static_cast<int64_t>(kGroupTiles) * kTileBytes;
  return layout.count <= groups_of_bytes / ElementSize(dtype) * (kGroupsMax - 2);
}

bool Packer::FitsSegment(KernelId kernel, uint32_t tiles, uint32_t groups) const {
  if (segment_count_ == 0) return false;
  const Segment& last = segments_[segment_count_ - 1];
  return last.kernel == kernel && last.tile_count + tiles <= tiles_max_ && last.group_count + groups <= kGroupsMax;
}

void Packer::AddPart(Entry entry, KernelId kernel, uint32_t tiles, uint32_t groups) {
  if (!FitsSegment(kernel, tiles, groups)) {
    segments_[segment_count_++] = Segment{kernel, entry.dtype, static_cast<uint32_t>(entry_count_), 0, 0, 0};
  }
  Segment& segment = segments_[segment_count_ - 1];
  entry.first_tile = segment.tile_count;
  entry.groups_at = segment.group_count;
  entries_[entry_count_++] = entry;
  ++segment.entry_count;
  segment.tile_count += tiles;
  segment.group_count += groups;
}

bool Packer::Add(const Layout& layout, DType dtype, KernelId kernel, uint32_t result) {
  const uint32_t tiles = TilesOf(layout.count, dtype), groups = GroupsOf(tiles);
  const uint32_t parts = (tiles + tiles_max_ - 1) / tiles_max_;
  const size_t shapes = layout.flat() ? 0 : 1;
  if (entry_count_ + parts > entries_max_ || shape_count_ + shapes > shapes_max_) return false;
  if (segment_count_ + parts > kSegmentsMax) return false;
  Entry entry{};
  entry.data = reinterpret_cast<const char*>(layout.data);
  entry.count = layout.count;
  entry.tiles = tiles;
  entry.result = result;
  entry.dtype = dtype;
  entry.shape = static_cast<uint16_t>(shape_count_);
  Shape unused;
  entry.access = AccessOf(layout, dtype, shapes > 0 ? &shapes_[shape_count_] : &unused);
  shape_count_ += shapes;
  if (parts == 1) return AddPart(entry, kernel, tiles, groups), true;
  // Launches on one stream run in order and share the tensor's counters and group partials. Because all groups are
  // taken, every part begins a segment, or ends one that uses no groups.
  for (uint32_t part = 0; part < parts; ++part) {
    entry.tile_offset = part * tiles_max_;
    AddPart(entry, kernel, std::min(tiles - entry.tile_offset, tiles_max_), kGroupsMax);
  }
  return true;
}

}  // namespace stepwatch::kernels::cuda
