// LibTorch's tensors as the kernels see them: dtypes, layouts, and the memory behind them.
#include "front_ends/torch/tensor_view.h"

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/kernels.h"
#include "tests/catch.h"

namespace stepwatch::tests {
namespace {

constexpr std::pair<at::ScalarType, DType> kDTypes[] = {
    {at::kDouble, DType::kFloat64},
    {at::kFloat, DType::kFloat32},
    {at::kHalf, DType::kFloat16},
    {at::kBFloat16, DType::kBFloat16},
    {at::kFloat8_e4m3fn, DType::kFloat8E4M3},
    {at::kFloat8_e5m2, DType::kFloat8E5M2},
    {at::kLong, DType::kInt64},
    {at::kInt, DType::kInt32},
    {at::kShort, DType::kInt16},
    {at::kChar, DType::kInt8},
    {at::kByte, DType::kUInt8},
    {at::kBool, DType::kBool},
};

struct Named {
  std::string name;
  at::Tensor tensor;
};

// Ways to lie in memory, all of the same 70,000 elements or fewer.
std::vector<Named> Layouts(const at::Tensor& flat) {
  const at::Tensor matrix = flat.view({280, 250}), images = flat.view({7, 10, 25, 40});
  return {{"flat, more than a chunk", flat},
          {"transposed", matrix.t()},
          {"rows with a pitch", matrix.narrow(1, 3, 91)},
          {"every third column", matrix.slice(1, 1, 250, 3)},
          {"channels last", images.contiguous(at::MemoryFormat::ChannelsLast)},
          {"permuted and cut", images.permute({2, 0, 3, 1}).narrow(1, 1, 5)},
          {"expanded", matrix.narrow(0, 0, 9).unsqueeze(1).expand({9, 4, 250})},
          {"beginning at an odd element", flat.narrow(0, 1, 4097)},
          {"0-d", flat[3]},
          {"empty, of three dimensions", matrix.narrow(0, 0, 0).unsqueeze(2)}};
}

TEST_CASE("tensors of every dtype and layout are seen where they lie, and measured as torch's operators do") {
  torch::manual_seed(7);
  const at::Tensor numbers = torch::randn({70'000}) * 50;
  for (const auto& [type, dtype] : kDTypes)
    for (const auto& [name, tensor] : Layouts((type == at::kByte ? numbers.abs() : numbers).to(type))) {
      INFO(c10::toString(type) << ", " << name);
      const torch_front::SeenTensor seen = torch_front::See(tensor);
      REQUIRE(seen.problem == nullptr);
      CHECK(seen.view.data == tensor.data_ptr());
      CHECK(seen.view.dtype == dtype);
      CHECK(seen.view.numel == tensor.numel());
      REQUIRE(seen.view.ndim == tensor.dim());
      for (int i = 0; i < seen.view.ndim; ++i) {
        CHECK(seen.view.sizes[static_cast<size_t>(i)] == tensor.size(i));
        CHECK(seen.view.strides[static_cast<size_t>(i)] == tensor.stride(i));
      }
      Statistics found;
      REQUIRE(kernels::Measure(seen.view, {1e-8, EpsMode::kParity}, &found).ok());
      const at::Tensor wide = tensor.to(at::kDouble);
      CHECK(found.norm == Approx(wide.norm(2).item<double>()).epsilon(1e-12));
      if (tensor.numel() == 0) continue;
      CHECK(found.min == wide.min().item<double>());
      CHECK(found.max == wide.max().item<double>());
    }
}

}  // namespace
}  // namespace stepwatch::tests
