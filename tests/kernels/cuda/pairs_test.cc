// Minimum and maximum of pairs of codes, as devices without instructions for them compute these.

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/portable.h"
#include "tests/catch.h"

namespace stepwatch::kernels::cuda::test {
namespace {

// Whether two codes stand for the same number, or both for none.
template <double (*kDecode)(uint16_t)>
bool Same(uint32_t x, uint32_t y) {
  const double a = kDecode(static_cast<uint16_t>(x)), b = kDecode(static_cast<uint16_t>(y));
  return a == b || (std::isnan(a) && std::isnan(b));
}

// How many of all pairs of any code with a notable one come out as other numbers than the decoded ones do.
template <class Found, class Expected, double (*kDecode)(uint16_t)>
int Differences(const std::vector<uint32_t>& notable) {
  int differences = 0;
  for (uint32_t code = 0; code < 0x10000; ++code)
    for (const uint32_t other : notable) {
      const uint32_t x = code | other << 16, y = other | code << 16;
      for (const auto& [found, expected] : {std::pair(Found::Smaller(x, y), Expected::Smaller(x, y)),
                                            std::pair(Found::Larger(x, y), Expected::Larger(x, y))})
        if (!Same<kDecode>(found & 0xffff, expected & 0xffff) || !Same<kDecode>(found >> 16, expected >> 16))
          ++differences;
    }
  return differences;
}

TEST_CASE("pairs of fp16 are compared by their codes as the numbers that they stand for") {
  CHECK(Differences<CodePairs<0x7c00>, HalfPairs, DecodeFloat16>({0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0xbc00,
                                                                  0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfe00,
                                                                  0x7fff, 0xffff}) == 0);
}

TEST_CASE("pairs of bf16 are compared by their codes as the numbers that they stand for") {
  CHECK(Differences<CodePairs<0x7f80>, BrainPairs, DecodeBFloat16>({0, 0x8000, 1, 0x8001, 0x7f, 0x80, 0x3f80, 0xbf80,
                                                                    0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7f81, 0xffc0,
                                                                    0x7fff, 0xffff}) == 0);
}

TEST_CASE("of the two zeros the negative one is the smaller") {
  CHECK(CodePairs<0x7c00>::Smaller(0x80000000, 0x00008000) == 0x80008000);
  CHECK(CodePairs<0x7c00>::Larger(0x80000000, 0x00008000) == 0);
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
