#include "stepwatch/peak_flops.h"

#include <string>

#include "tests/catch.h"

namespace stepwatch {
namespace {

double Tera(const char* name, DType dtype = DType::kBFloat16) {
  return PeakFlops(name, dtype).value_or(0) / 1e12;
}

TEST_CASE("the peak of a device is found by its name and dtype") {
  const struct {
    const char* name;
    double tera;
  } cases[] = {
      {"NVIDIA H100 80GB HBM3", 989.4},
      {"NVIDIA H100 PCIe", 756.5},
      {"NVIDIA H100 NVL", 835.5},
      {"NVIDIA H200", 989.4},
      {"NVIDIA GH200 480GB", 989.4},
      {"NVIDIA B200", 2250},
      {"NVIDIA GB200", 2500},
      {"NVIDIA A100-SXM4-80GB", 312},
      {"A100-PCIE-40GB", 312},
      {"NVIDIA A10", 125},
      {"NVIDIA A10G", 70},
      {"NVIDIA L4", 121},
      {"NVIDIA L40S", 362.05},
      {"NVIDIA GeForce RTX 4090", 165.2},
      {"NVIDIA RTX 6000 Ada Generation", 364.2},
      {"AMD Instinct MI300X", 1307.4},
  };
  for (const auto& each : cases) {
    CAPTURE(each.name);
    CHECK(Tera(each.name) == Approx(each.tera));
  }
  CHECK(Tera("Tesla V100-SXM2-32GB", DType::kFloat16) == Approx(125));
  CHECK(Tera("Tesla V100-PCIE-16GB", DType::kFloat16) == Approx(112));
  CHECK(Tera("NVIDIA A100-SXM4-80GB", DType::kFloat32) == Approx(19.5));
}

TEST_CASE("an unknown device, a part of a device, and a dtype without products have no peak") {
  const char* names[] = {"",
                         "NVIDIA",
                         "NVIDIA H100",  // which of its variants?
                         "NVIDIA X100",
                         "cpu",
                         "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
                         "GRID A100D-40C",
                         "NVIDIA A10-24Q",
                         "NVIDIA GeForce RTX 4090 Laptop GPU",
                         "NVIDIA GeForce RTX 4090 D",
                         "NVIDIA GeForce RTX 3090 Ti",
                         "- - /"};
  for (const char* name : names) {
    CAPTURE(name);
    CHECK_FALSE(PeakFlops(name, DType::kBFloat16).has_value());
  }
  CHECK_FALSE(PeakFlops("Tesla V100-SXM2-32GB", DType::kBFloat16).has_value());
  CHECK_FALSE(PeakFlops("NVIDIA A100-SXM4-80GB", DType::kInt8).has_value());
  CHECK_FALSE(PeakFlops(std::string(100000, 'A'), DType::kBFloat16).has_value());
}

}  // namespace
}  // namespace stepwatch
