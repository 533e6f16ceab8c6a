// Every level of instructions gives the bits of the reference  on this processor.

#include <cstring>

#include "kernels/cpu_engine.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "kernels/reference.h"
#include "tests/catch.h"
#include "tests/kernels/tensor_model.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::test {
namespace {

// The levels whose result differs from the reference, with the fields.
std::string Disagreements(const TensorView& view, const MeasureOptions& options = {}) {
  Statistics expected;
  if (!reference::Measure(view, options, &expected).ok()) return "the reference refuses";
  std::string text;
  for (const Level* level : AvailableLevels()) {
    Statistics found;
    if (!cpu::Measure(*level, view, options, &found).ok()) return "refused";
    const std::string difference = Difference(found, expected);
    if (!difference.empty()) text += std::string(level->name) + ": " + difference;
  }
  return text;
}

TEST_CASE("every level gives the bits of the reference for all sizes and kinds of data", "[slow]") {
  std::mt19937_64 random(17);
  std::vector<int64_t> sizes;
  for (int64_t n = 0; n <= 200; ++n) sizes.push_back(n);
  for (int64_t n : {511, 512, 513, 65535, 65536, 65537, 131072 + 33}) sizes.push_back(n);
  size_t first = 0;
  for (DType dtype : kAllDTypes) {
    for (Fill fill : kAllFills) {
      std::string wrong;
      for (size_t i = first++ % testing::Every(7); i < sizes.size(); i += testing::Every(7)) {
        const int64_t n = sizes[i];
        const std::string difference = Disagreements(RandomTensor(dtype, n, fill, &random).view());
        if (!difference.empty()) wrong += std::to_string(n) + " " + difference + "; ";
      }
      INFO(DTypeName(dtype) << ", fill " << static_cast<int>(fill));
      CHECK(wrong == "");
    }
  }
}

// Counts that live in narrow lanes would wrap around here.
TEST_CASE("long runs of zeros, NaN or infinities are counted exactly on every level") {
  for (DType dtype : kAllDTypes) {
    Tensor zeros{dtype, std::vector<std::byte>(static_cast<size_t>(70'000 * ElementSize(dtype)))};
    CHECK(Disagreements(zeros.view(), {.eps = 0.5}) == "");
    CHECK(MeasureOrFail(zeros.view(), {.eps = 0.5}).zeros == 1);
  }
  for (DType dtype : kInfiniteDTypes) {
    for (double special : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const Tensor one = MakeTensor(dtype, {special});
      Tensor tensor{dtype, {}};
      for (int i = 0; i < 70'000; ++i) tensor.bytes.insert(tensor.bytes.end(), one.bytes.begin(), one.bytes.end());
      CHECK(Disagreements(tensor.view()) == "");
      const Statistics found = MeasureOrFail(tensor.view());
      CHECK(found.nans + found.infs == 70'000);
    }
  }
}

TEST_CASE("every level gives the bits of the reference at any address") {
  std::mt19937_64 random(19);
  for (DType dtype : kAllDTypes) {
    const Tensor tensor = RandomTensor(dtype, 1000, Fill::kFewSpecial, &random);
    for (int shift = 0; shift < 64; ++shift) {
      int64_t count = 900;
      CHECK(Disagreements(DenseView(tensor.bytes.data() + shift, dtype, &count, 1)) == "");
    }
  }
}

// Puts one special code at `position` and asks for the counts and the bits of the reference.
bool Finds(Tensor* tensor, int64_t position, const Tensor& special, int64_t nans, int64_t infs) {
  const size_t size = special.bytes.size();
  std::byte* place = tensor->bytes.data() + static_cast<size_t>(position) * size;
  std::byte saved[8];
  std::memcpy(saved, place, size);
  std::memcpy(place, special.bytes.data(), size);
  const Statistics found = MeasureOrFail(tensor->view());
  const bool right = found.nans == nans && found.infs == infs && Disagreements(tensor->view()) == "";
  std::memcpy(place, saved, size);
  return right;
}

TEST_CASE("one NaN or infinity is found at every position", "[slow]") {
  std::mt19937_64 random(23);
  const double infinity = std::numeric_limits<double>::infinity();
  size_t first = 0;
  for (DType dtype : kInfiniteDTypes) {
    const Tensor nan = MakeTensor(dtype, {std::numeric_limits<double>::quiet_NaN()});
    const Tensor up = MakeTensor(dtype, {infinity}), down = MakeTensor(dtype, {-infinity});
    std::string missed;
    const auto probe = [&](Tensor* tensor, int64_t position) {
      if (!Finds(tensor, position, nan, 1, 0) || !Finds(tensor, position, up, 0, 1) ||
          !Finds(tensor, position, down, 0, 1))
        missed += std::to_string(position) + " ";
    };
    for (int64_t n = 1; n <= 50; ++n) {
      Tensor small = RandomTensor(dtype, n, Fill::kOrdinary, &random);
      for (int64_t i = 0; i < n; ++i) probe(&small, i);
    }
    Tensor large = RandomTensor(dtype, 65536 + 20, Fill::kOrdinary, &random);
    const int64_t positions[] = {0, 511, 512, 65535, 65536, 65551, 65552, 65555};
    for (size_t i = first++ % testing::Every(4); i < std::size(positions); i += testing::Every(4))
      probe(&large, positions[i]);
    INFO(DTypeName(dtype));
    CHECK(missed == "");
  }
}

#if defined(__SSE2__)
TEST_CASE("a thread that flushes subnormals still gets the bits of the reference, and fp16 as it is") {
  std::mt19937_64 random(29);
  const unsigned saved = _mm_getcsr();
  for (DType dtype : kAllDTypes) {
    const Tensor tensor = RandomTensor(dtype, 1000, Fill::kTiny, &random);
    const Statistics before = MeasureOrFail(tensor.view());
    _mm_setcsr(saved | 0x8040);  // flush to zero, denormals are zero
    const std::string disagreements = Disagreements(tensor.view());
    const Statistics flushed = MeasureOrFail(tensor.view());
    _mm_setcsr(saved);
    CHECK(disagreements == "");
    if (dtype == DType::kFloat16) CHECK(Difference(before, flushed) == "");
  }
}
#endif

TEST_CASE("the path that Measure takes is named and is the best of this processor") {
  CHECK(std::string(MeasurePathName()) == AvailableLevels().front()->name);
  CHECK(std::string(AvailableLevels().back()->name) == "scalar");
}

}  // namespace
}  // namespace stepwatch::kernels::test
