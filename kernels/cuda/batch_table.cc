#include "kernels/cuda/batch_table.h"

#include <algorithm>

namespace stepwatch::kernels::cuda {
namespace {

bool SameView(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || a.numel != b.numel || a.dtype != b.dtype || a.ndim != b.ndim) return false;
  if (a.device.kind != b.device.kind || a.device.index != b.device.index) return false;
  if (a.ndim < 0 || a.ndim > kDimsMax) return false;
  for (size_t i = 0; i < static_cast<size_t>(a.ndim); ++i)
    if (a.sizes[i] != b.sizes[i] || a.strides[i] != b.strides[i]) return false;
  return true;
}

}  // namespace

bool BatchTable::Allocate(Driver* driver, BatchTable* table) {
  table->entries = static_cast<Entry*>(driver->AllocateMapped(kEntriesMax * sizeof(Entry)).host);
  table->shapes = static_cast<Shape*>(driver->AllocateMapped(kShapesMax * sizeof(Shape)).host);
  table->device_entries = static_cast<Entry*>(driver->AllocateDevice(kEntriesMax * sizeof(Entry)));
  table->device_shapes = static_cast<Shape*>(driver->AllocateDevice(kShapesMax * sizeof(Shape)));
  table->members.resize(kEntriesMax);
  return table->entries != nullptr && table->shapes != nullptr && table->device_entries != nullptr &&
         table->device_shapes != nullptr;
}

bool BatchTable::Holds(const DeviceItem* items, size_t item_count) const noexcept {
  if (item_count != count) return false;
  for (size_t i = 0; i < count; ++i)
    if (!SameView(items[i].tensor, members[i].view)) return false;
  return true;
}

void BatchTable::Begin(const DeviceItem* items, size_t item_count) noexcept {
  count = item_count;
  packer = Packer(entries, kEntriesMax, shapes, kShapesMax);
  for (size_t i = 0; i < count; ++i) members[i].view = items[i].tensor;
}

bool BatchTable::Upload(Driver* driver, Stream to) noexcept {
  stream = to;
  if (!driver->Upload(device_entries, entries, packer.entry_count() * sizeof(Entry), to)) return false;
  return packer.shape_count() == 0 || driver->Upload(device_shapes, shapes, packer.shape_count() * sizeof(Shape), to);
}

}  // namespace stepwatch::kernels::cuda
