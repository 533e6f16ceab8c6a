// The comparison with eps, in the form that each kernel takes it.

#include "kernels/cuda/answers.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/order.h"
#include "kernels/formats.h"
#include "tests/catch.h"

namespace stepwatch::kernels::cuda::test {
namespace {

template <class Decode>
void CheckCodes(DType dtype, uint32_t codes, int shift, double eps, Decode decode) {
  const MeasureOptions options{eps, EpsMode::kExact};
  const uint32_t key = ZeroRuleFor(dtype, options).key;
  for (uint32_t code = 0; code < codes; ++code)
    REQUIRE((code << shift < key) == (decode(static_cast<uint16_t>(code)) < eps));
}

TEST_CASE("every code is on the right side of every threshold") {
  for (double eps : {0.0, 1e-8, 5.9e-8, 6e-8, 0.25, 0.3, 1.0, 447.9, 448.0, 65504.0, 1e38,
                     std::numeric_limits<double>::infinity()}) {
    INFO("eps " << eps);
    CheckCodes(DType::kFloat16, 0x8000, 0, eps, DecodeFloat16);
    CheckCodes(DType::kBFloat16, 0x8000, 0, eps, DecodeBFloat16);
    CheckCodes(DType::kFloat8E5M2, 0x80, 8, eps, [](uint16_t c) { return DecodeFloat8E5M2(static_cast<uint8_t>(c)); });
    CheckCodes(DType::kFloat8E4M3, 0x80, 7, eps, [](uint16_t c) { return DecodeFloat8E4M3(static_cast<uint8_t>(c)); });
  }
}

TEST_CASE("what is exactly zero lies below an eps that its dtype rounds to zero") {
  const MeasureOptions tiny{1e-8, EpsMode::kParity}, tinier{1e-60, EpsMode::kParity}, none{0, EpsMode::kParity};
  CHECK(ZeroRuleFor(DType::kFloat16, tiny).key == 1);
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    INFO(DTypeName(dtype));
    CHECK(ZeroRuleFor(dtype, tinier).key == 1);
    CHECK(ZeroRuleFor(dtype, none).key == 0);
  }
}

TEST_CASE("a threshold between two floats lies at the upper") {
  const double between = (1.0 + static_cast<double>(std::nextafter(1.0f, 2.0f))) / 2;
  const MeasureOptions options{between, EpsMode::kExact};
  CHECK(std::bit_cast<float>(ZeroRuleFor(DType::kFloat32, options).key) == std::nextafter(1.0f, 2.0f));
  CHECK(ZeroRuleFor(DType::kFloat32, {NAN, EpsMode::kExact}).key == 0);
  CHECK(ZeroRuleFor(DType::kFloat64, {NAN, EpsMode::kExact}).number == 0);
}

TEST_CASE("lanes of the reference's order are each used, and threads of one vector are neighbours by warp") {
  for (DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kInt8}) {
    const reference::SumOrder order = OrderOf(dtype);
    std::vector<int> uses(static_cast<size_t>(order.lanes));
    for (int64_t i = 0; i < order.chunk_elements; ++i) ++uses[static_cast<size_t>(order.lane_of(i))];
    for (int use : uses) REQUIRE(use == order.chunk_elements / order.lanes);
  }
  CHECK(OrderOf(DType::kFloat32).lane_of(4) == 8);         // thread 1
  CHECK(OrderOf(DType::kFloat32).lane_of(4 * 32) == 1);    // warp 1
  CHECK(OrderOf(DType::kFloat32).lane_of(1) == kThreads);  // second lane of thread 0
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
