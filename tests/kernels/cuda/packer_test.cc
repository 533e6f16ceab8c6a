// Descriptors: how tensors become entries, and how entries are cut into launches.

#include "kernels/cuda/packer.h"

#include <vector>

#include "kernels/cuda/answers.h"
#include "kernels/cuda/emulation.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device_tensor.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::cuda::test {
namespace {

Layout LayoutOf(const void* data, DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  TensorView view = DenseView(data, dtype, sizes.data(), static_cast<int>(sizes.size()));
  std::copy(strides.begin(), strides.end(), view.strides.begin());
  Layout layout;
  REQUIRE(CanonicalLayout(view, &layout).ok());
  return layout;
}

TEST_CASE("access is as wide as layout and address allow") {
  alignas(16) std::byte memory[4096];
  Shape shape;
  CHECK(AccessOf(LayoutOf(memory, DType::kFloat32, {8, 8}, {8, 1}), DType::kFloat32, &shape) == Access::kVectors);
  CHECK(AccessOf(LayoutOf(memory, DType::kFloat32, {8, 8}, {1, 8}), DType::kFloat32, &shape) == Access::kVectors);
  CHECK(AccessOf(LayoutOf(memory + 4, DType::kFloat32, {8, 8}, {8, 1}), DType::kFloat32, &shape) == Access::kNarrow);
  CHECK(AccessOf(LayoutOf(memory, DType::kFloat32, {8, 8}, {12, 1}), DType::kFloat32, &shape) ==
        Access::kStridedVectors);
  CHECK(shape.ndim == 2);
  CHECK(shape.sizes[1] == 2);  // vectors of four
  CHECK(shape.strides[1] == 16);
  CHECK(shape.strides[0] == 48);
  CHECK(AccessOf(LayoutOf(memory, DType::kFloat32, {8, 8}, {13, 1}), DType::kFloat32, &shape) == Access::kStrided);
  CHECK(AccessOf(LayoutOf(memory, DType::kFloat32, {8, 6}, {12, 1}), DType::kFloat32, &shape) == Access::kStrided);
  CHECK(AccessOf(LayoutOf(memory, DType::kBFloat16, {8, 8}, {12, 1}), DType::kBFloat16, &shape) == Access::kStrided);
  CHECK(shape.strides[0] == 24);
}

TEST_CASE("tensors of one kernel share a launch, and tiles are numbered through") {
  alignas(16) static std::byte memory[16];
  std::vector<Entry> entries(8);
  std::vector<Shape> shapes(2);
  Packer packer(entries.data(), entries.size(), shapes.data(), shapes.size());
  const auto flat = [](int64_t count) {
    Layout layout;
    layout.data = memory;
    layout.count = layout.sizes[0] = count;
    layout.strides[0] = 1;
    return layout;
  };
  REQUIRE(packer.Add(flat(100), DType::kFloat32, KernelId::kFloat32, 0));
  REQUIRE(packer.Add(flat(3 * 16384), DType::kFloat32, KernelId::kFloat32, 5));
  REQUIRE(packer.Add(flat(300 * 16384), DType::kFloat32, KernelId::kFloat32, 6));
  REQUIRE(packer.Add(flat(1), DType::kBFloat16, KernelId::kBFloat16, 7));
  REQUIRE(packer.end() - packer.begin() == 2);
  const Segment& first = *packer.begin();
  CHECK(first.entry_count == 3);
  CHECK(first.tile_count == 304);
  CHECK(first.group_count == 2 + 3);  // with the counter of each tensor
  CHECK(entries[1].first_tile == 1);
  CHECK(entries[2].first_tile == 4);
  CHECK(entries[2].groups_at == 2);
  CHECK(entries[1].result == 5);
  CHECK(packer.begin()[1].first_entry == 3);
  for (uint32_t i = 0; i < 4; ++i) REQUIRE(packer.Add(flat(1), DType::kBFloat16, KernelId::kBFloat16, i));
  CHECK_FALSE(packer.Add(flat(1), DType::kBFloat16, KernelId::kBFloat16, 9));
  CHECK(packer.entry_count() == 8);
}

TEST_CASE("a tensor larger than a launch is measured by several, with the same bits", "[slow]") {
  std::mt19937_64 random(5);
  constexpr int64_t kFullTiles = testing::kIsSanitized ? 300 : 700;
  const DeviceTensor tensor = FlatTensor(DType::kInt8, kFullTiles * 65536 + 5, 0, Fill::kOrdinary, &random);
  const DeviceTensor beside = FlatTensor(DType::kInt8, 70000, 0, Fill::kOrdinary, &random);
  std::vector<Entry> entries(8);
  Packer packer(entries.data(), entries.size(), nullptr, 0, 256);  // tiles of a launch
  for (uint32_t i = 0; i < 2; ++i) {
    Layout layout;
    const TensorView view = OnCpu(i == 0 ? tensor.view : beside.view);
    REQUIRE(CanonicalLayout(view, &layout).ok());
    REQUIRE(packer.Add(layout, DType::kInt8, KernelId::kInteger8, i));
  }
  REQUIRE(packer.end() - packer.begin() == kFullTiles / 256 + 2);
  std::vector<Partial> tiles(256), groups(8);
  std::vector<uint32_t> counters(8);
  std::vector<ResultSlot> results(2);
  Launch launch{};
  launch.entries = entries.data();
  launch.tile_partials = tiles.data();
  launch.group_partials = groups.data();
  launch.counters = counters.data();
  launch.results = results.data();
  launch.result_mask = 1;
  launch.zero = ZeroRuleFor(DType::kInt8, {});
  for (const Segment& segment : packer) {
    launch.first_entry = segment.first_entry;
    launch.entry_count = segment.entry_count;
    launch.tile_count = segment.tile_count;
    Emulate(segment.kernel, launch, 7, random());
  }
  for (size_t i = 0; i < 2; ++i) {
    const TensorView view = i == 0 ? tensor.view : beside.view;
    REQUIRE(results[i].sequence == i + 1);
    Layout layout;
    layout.count = view.numel;
    CHECK(kernels::test::Difference(Finish(TotalsOf(results[i].totals, DType::kInt8), layout, DType::kInt8),
                                    Expected(view, {})) == "");
  }
  for (uint32_t counter : counters) CHECK(counter == 0);
}

TEST_CASE("the largest tensors that can be held") {
  Layout layout;
  layout.count = int64_t{141} << 30;
  CHECK(Packer::CanHold(layout, DType::kInt8));
  layout.count = int64_t{1} << 40;
  CHECK_FALSE(Packer::CanHold(layout, DType::kInt8));
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
