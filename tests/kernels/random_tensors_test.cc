// Random dtype, shape, strides, address and data against the model.

#include <algorithm>

#include "kernels/cpu_engine.h"
#include "kernels/reference.h"
#include "tests/catch.h"
#include "tests/kernels/tensor_model.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::test {
namespace {

std::vector<int64_t> RandomSizes(std::mt19937_64* random) {
  std::vector<int64_t> sizes(static_cast<size_t>(Below(kDimsMax + 1, random)));
  const int64_t largest = sizes.size() <= 2 ? 50 : sizes.size() <= 4 ? 7 : 3;
  for (int64_t& size : sizes) size = Below(20, random) == 0 ? 0 : 1 + Below(largest, random);
  return sizes;
}

OwnedTensor AnyTensor(DType dtype, std::mt19937_64* random) {
  const std::vector<int64_t> sizes = RandomSizes(random), strides = RandomStrides(sizes, random);
  const Fill fill = kAllFills[Below(std::size(kAllFills), random)];
  return StridedTensor(dtype, sizes, strides, static_cast<size_t>(Below(17, random)), fill, random);
}

TEST_CASE("random tensors are measured as by the model, by all paths alike", "[slow][random]") {
  const uint64_t seed = RandomSeed();
  INFO("repeat with STEPWATCH_SEED=" << seed);
  std::mt19937_64 random(seed);
  const double thresholds[] = {1e-8, 0, 0.25, 1e-40, 3};
  for (int round = 0; round < testing::Rounds(4000); ++round) {
    const DType dtype = kAllDTypes[Below(std::size(kAllDTypes), &random)];
    const OwnedTensor subject = AnyTensor(dtype, &random);
    const MeasureOptions options{thresholds[Below(5, &random)],
                                 Below(4, &random) == 0 ? EpsMode::kExact : EpsMode::kParity};
    Statistics expected;
    REQUIRE(reference::Measure(subject.view, options, &expected).ok());
    std::string wrong = Mistakes(subject.view, options, expected);
    wrong += Difference(MeasureOrFail(subject.view, options), expected);
    for (const Level* level : AvailableLevels()) {
      Statistics found;
      REQUIRE(cpu::Measure(*level, subject.view, options, &found).ok());
      wrong += Difference(found, expected);
    }
    if (wrong.empty()) continue;
    INFO("round " << round << ": " << Describe(subject.view) << ", eps " << options.eps);
    REQUIRE(wrong == "");
  }
}

TEST_CASE("random pairs of tensors agree in sign as in the model", "[random]") {
  const uint64_t seed = RandomSeed();
  INFO("repeat with STEPWATCH_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 1500; ++round) {
    const DType dtype_a = kAllDTypes[Below(std::size(kAllDTypes), &random)];
    const DType dtype_b = Below(2, &random) == 0 ? dtype_a : kAllDTypes[Below(std::size(kAllDTypes), &random)];
    const OwnedTensor a = AnyTensor(dtype_a, &random);
    // The same shape in other memory: dense in row-major order, or lying like the first.
    const int64_t room = static_cast<int64_t>(a.memory.size()) + a.view.numel + 1;
    const Tensor other = RandomTensor(dtype_b, room, Fill::kAnyBits, &random);
    TensorView b = DenseView(other.bytes.data(), dtype_b, a.view.sizes.data(), a.view.ndim);
    const bool forward = std::all_of(a.view.strides.begin(), a.view.strides.end(), [](int64_t s) { return s >= 0; });
    if (forward && Below(2, &random) == 0) b.strides = a.view.strides;
    double found = -1;
    REQUIRE(SignAgreement(a.view, b, &found).ok());
    const double expected = ModelAgreement(a.view, b);
    double from_reference = -1;
    REQUIRE(reference::SignAgreement(a.view, b, &from_reference).ok());
    if (found == expected && from_reference == expected) continue;
    INFO("round " << round << ": " << Describe(a.view) << " and " << Describe(b));
    REQUIRE(found == expected);
    REQUIRE(from_reference == expected);
  }
}

}  // namespace
}  // namespace stepwatch::kernels::test
