// The ways a tensor can lie in memory, each against the model.

#include "kernels/layout.h"

#include "kernels/reference.h"
#include "tests/catch.h"
#include "tests/kernels/tensor_model.h"

namespace stepwatch::kernels::test {
namespace {

TensorView Strided(const Tensor& tensor, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset = 0) {
  TensorView view = DenseView(tensor.bytes.data() + offset * ElementSize(tensor.dtype), tensor.dtype, sizes.data(),
                              static_cast<int>(sizes.size()));
  std::copy(strides.begin(), strides.end(), view.strides.begin());
  return view;
}

Layout Canonical(const TensorView& view) {
  Layout layout;
  REQUIRE(CanonicalLayout(view, &layout).ok());
  return layout;
}

TEST_CASE("every dtype agrees with the model in every layout") {
  std::mt19937_64 random(7);
  for (DType dtype : kAllDTypes) {
    const Tensor tensor = RandomTensor(dtype, 720, Fill::kOrdinary, &random);
    const TensorView views[] = {
        tensor.view(),                                 // contiguous
        tensor.view({}),                               // scalar
        tensor.view({8, 9, 10}),                       // contiguous, three dimensions
        Strided(tensor, {10, 8, 9}, {1, 90, 10}),      // dense, permuted
        Strided(tensor, {8, 1, 90}, {90, 12345, 1}),   // a size of 1 has any stride
        Strided(tensor, {20, 7}, {36, 1}),             // rows with a pitch
        Strided(tensor, {7, 20}, {1, 36}),             // the same, transposed
        Strided(tensor, {90}, {8}),                    // every eighth
        Strided(tensor, {5, 4, 3}, {100, 7, 2}, 3),    // general
        Strided(tensor, {6, 50}, {1, 0}),              // expanded
        Strided(tensor, {3, 4, 5, 6}, {0, 30, 0, 5}),  // expanded in two dimensions, with gaps
        Strided(tensor, {5}, {0}),                     // one element, five times
        Strided(tensor, {10, 10}, {1, 1}),             // overlapping
        Strided(tensor, {4, 5}, {-9, -1}, 60),         // backwards
        Strided(tensor, {2, 2, 2, 2, 2, 2, 2, 2}, {1, 3, 5, 9, 17, 33, 65, 129}),
    };
    for (const TensorView& view : views) {
      INFO(DTypeName(dtype) << ", layout " << &view - views);
      Statistics reference;
      REQUIRE(reference::Measure(view, {}, &reference).ok());
      CHECK(Mistakes(view, {}, reference) == "");
      CHECK(Difference(MeasureOrFail(view), reference) == "");
    }
  }
}

TEST_CASE("a dense tensor is flat in any permutation, and nothing else is") {
  const Tensor tensor{DType::kFloat32, std::vector<std::byte>(4000)};
  CHECK(Canonical(tensor.view({10, 100})).flat());
  CHECK(Canonical(Strided(tensor, {100, 10}, {1, 100})).flat());
  CHECK(Canonical(Strided(tensor, {2, 3, 4, 5}, {60, 1, 15, 3})).flat());  // channels last
  CHECK(Canonical(Strided(tensor, {1, 7, 1}, {55, 1, 66})).flat());
  CHECK_FALSE(Canonical(Strided(tensor, {10, 10}, {1, 1})).flat());
  CHECK_FALSE(Canonical(Strided(tensor, {10, 9}, {10, 1})).flat());
  CHECK_FALSE(Canonical(Strided(tensor, {10}, {2})).flat());
}

TEST_CASE("neighbouring dimensions are merged and repeats are factored out") {
  const Tensor tensor{DType::kFloat32, std::vector<std::byte>(4000)};
  const Layout rows = Canonical(Strided(tensor, {4, 5, 3, 2}, {100, 20, 2, 1}));
  CHECK(rows.ndim == 2);
  CHECK(rows.sizes[0] == 20);
  CHECK(rows.sizes[1] == 6);
  const Layout expanded = Canonical(Strided(tensor, {4, 1000, 5}, {5, 0, 1}));
  CHECK(expanded.flat());
  CHECK(expanded.count == 20);
  CHECK(expanded.repeat == 1000);
}

TEST_CASE("a tensor expanded beyond any memory is measured from its distinct elements") {
  const Tensor tensor = MakeTensor(DType::kFloat32, {3, 0});
  const int64_t repeat = int64_t{1} << 40;
  const TensorView view = Strided(tensor, {2, repeat}, {1, 0});
  const Statistics found = MeasureOrFail(view);
  CHECK(found.numel == 2 * repeat);
  CHECK(found.mean == 1.5);
  CHECK(found.norm == Approx(3 * 1048576.0));
  CHECK(found.zeros == 0.5);
}

TEST_CASE("the sum of a dense permutation is that of its storage, bit for bit") {
  std::mt19937_64 random(11);
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Tensor tensor = RandomTensor(dtype, 30000, Fill::kOrdinary, &random);
    CHECK(Difference(MeasureOrFail(Strided(tensor, {300, 100}, {1, 300})), MeasureOrFail(tensor.view())) == "");
  }
}

TEST_CASE("the reference adds in the canonical order") {
  std::mt19937_64 random(13);
  const Tensor tensor = RandomTensor(DType::kFloat64, 1000, Fill::kOrdinary, &random);
  double values[1000];
  std::copy_n(reinterpret_cast<const double*>(tensor.bytes.data()), 1000, values);
  const int64_t chunk = 100;
  double sum = 0;
  for (int64_t begin = 0; begin < 1000; begin += chunk) {
    double lanes[16] = {};
    for (int64_t i = 0; i < chunk; ++i) lanes[i % 16] += values[begin + i];
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    sum += lanes[0];
  }
  Statistics found;
  REQUIRE(reference::Measure(tensor.view(), {}, &found, {.chunk_elements = chunk}).ok());
  CHECK(found.mean == sum / 1000);
}

}  // namespace
}  // namespace stepwatch::kernels::test
