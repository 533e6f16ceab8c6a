// Every code of every small format, on every level of instructions.

#include <cmath>
#include <vector>

#include "kernels/cpu_engine.h"
#include "tests/catch.h"
#include "tests/kernels/tensor_model.h"
#include "tests/rounds.h"

namespace stepwatch::kernels::test {
namespace {

bool ReadsAs(const Statistics& found, long double expected, int64_t count) {
  if (std::isnan(expected)) return found.nans == count && std::isnan(found.max) && std::isnan(found.mean);
  const double value = static_cast<double>(expected);
  return found.nans == 0 && found.infs == (std::isinf(value) ? count : 0) && found.min == value && found.max == value &&
         (count > 1 || (found.mean == value && found.norm == std::abs(value)));
}

// The readings of a code, alone and in full vectors, that differ from the model on some level of instructions.
template <class Code>
int CountMisread(DType dtype) {
  const uint32_t every = sizeof(Code) == 1 ? 1 : testing::Every(7);
  int misread = 0;
  for (uint32_t code = 0; code >> (8 * sizeof(Code)) == 0; code += every) {
    const std::vector<Code> same(16, static_cast<Code>(code));
    const long double expected = Decode(dtype, same.data());
    for (const Level* level : AvailableLevels())
      for (const int64_t count : {1, 16}) {
        Statistics found;
        if (!cpu::Measure(*level, DenseView(same.data(), dtype, &count, 1), {}, &found).ok() ||
            !ReadsAs(found, expected, count))
          ++misread;
      }
  }
  return misread;
}

TEST_CASE("each of the 256 codes of both fp8 formats is read right") {
  CHECK(CountMisread<uint8_t>(DType::kFloat8E4M3) == 0);
  CHECK(CountMisread<uint8_t>(DType::kFloat8E5M2) == 0);
}

TEST_CASE("well-known fp8 codes") {
  const auto max_of = [](DType dtype, uint8_t code) { return MeasureOrFail(DenseView(&code, dtype, nullptr, 0)).max; };
  CHECK(max_of(DType::kFloat8E4M3, 0x7e) == 448);
  CHECK(max_of(DType::kFloat8E4M3, 0x38) == 1);
  CHECK(max_of(DType::kFloat8E4M3, 0x01) == std::ldexp(1, -9));
  CHECK(max_of(DType::kFloat8E4M3, 0xfe) == -448);
  CHECK(std::isnan(max_of(DType::kFloat8E4M3, 0xff)));
  CHECK(max_of(DType::kFloat8E5M2, 0x7b) == 57344);
  CHECK(max_of(DType::kFloat8E5M2, 0x01) == std::ldexp(1, -16));
  CHECK(std::isinf(max_of(DType::kFloat8E5M2, 0x7c)));
}

TEST_CASE("each of the 65536 codes of fp16 and bf16 is read right", "[slow]") {
  CHECK(CountMisread<uint16_t>(DType::kFloat16) == 0);
  CHECK(CountMisread<uint16_t>(DType::kBFloat16) == 0);
}

TEST_CASE("each code of 8 and 16 bit integers is read right") {
  CHECK(CountMisread<uint8_t>(DType::kInt8) == 0);
  CHECK(CountMisread<uint8_t>(DType::kUInt8) == 0);
  CHECK(CountMisread<uint8_t>(DType::kBool) == 0);
  CHECK(CountMisread<uint16_t>(DType::kInt16) == 0);
}

}  // namespace
}  // namespace stepwatch::kernels::test
