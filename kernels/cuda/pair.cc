#include "kernels/cuda/pair.h"

namespace stepwatch::kernels::cuda {
namespace {

void DescribeOne(const Layout& layout, DType dtype, uint16_t i, Launch* launch) {
  Entry& entry = launch->inline_entries[i];
  entry = Entry{};
  entry.data = reinterpret_cast<const char*>(layout.data);
  entry.count = layout.count;
  entry.shape = i;
  entry.dtype = dtype;
  entry.access = ElementAccessOf(layout, dtype, &launch->inline_shapes[i]);
}

}  // namespace

StatusCode MakePair(const TensorView& a, const TensorView& b, Pair* pair) {
  pair->a = a;
  pair->b = b;
  StatusCode code = LogicalLayout(OnCpu(a), &pair->layout_a).code();
  if (code == StatusCode::kOk) code = LogicalLayout(OnCpu(b), &pair->layout_b).code();
  if (code != StatusCode::kOk) return code;
  pair->alike = SameShape(a, b);
  // Uses memory order if that pairs the same elements.
  if (DenseAlike(a, b)) {
    for (Layout* layout : {&pair->layout_a, &pair->layout_b}) {
      layout->ndim = 1;
      layout->sizes[0] = a.numel;
      layout->strides[0] = 1;
    }
  }
  return StatusCode::kOk;
}

std::optional<Segment> DescribePair(const Pair& pair, uint32_t result, Launch* launch) {
  constexpr int64_t kElements = kTileBytes / 2;  // matches the tiles of CompareSigns
  const int64_t tiles = (pair.layout_a.count + kElements - 1) / kElements;
  const int64_t groups = tiles == 1 ? 0 : (tiles + kGroupTiles - 1) / kGroupTiles + 1;
  if (tiles > kTilesMax || groups > kGroupsMax) return std::nullopt;
  launch->entries = nullptr;
  launch->shapes = nullptr;
  DescribeOne(pair.layout_a, pair.a.dtype, 0, launch);
  DescribeOne(pair.layout_b, pair.b.dtype, 1, launch);
  launch->inline_entries[0].tiles = static_cast<uint32_t>(tiles);
  launch->inline_entries[0].result = result;
  return Segment{KernelId::kAgreement, pair.a.dtype, 0, 1, static_cast<uint32_t>(tiles), static_cast<uint32_t>(groups)};
}

}  // namespace stepwatch::kernels::cuda
