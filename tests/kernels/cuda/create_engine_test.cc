// CreateEngine on each build: an engine, or a sentence with the reason.

#include <cstring>

#include "kernels/cuda/driver_status.h"
#include "kernels/device_engine.h"
#include "tests/catch.h"

namespace stepwatch::kernels::cuda::test {
namespace {

TEST_CASE("without a CUDA engine or device there is a clear sentence, otherwise an engine") {
  const CudaReport report = DetectCuda();
  CHECK((std::strstr(report.code, "sm_") != nullptr) == report.built);
  const auto engine = CreateCudaEngine({});
  if (report.devices > 0) {
    CHECK(engine.ok());
    CHECK(report.reason.empty());
    return;
  }
  REQUIRE_FALSE(engine.ok());
  CHECK(engine.status().code() == StatusCode::kUnsupported);
  CHECK(engine.status().message().find("CUDA") != std::string::npos);
  CHECK(report.reason.find("CUDA") != std::string::npos);
}

TEST_CASE("a report alone lists the devices that the process has used, or the reason for none") {
  const CudaReport before = DetectCudaInUse();
  const CudaReport asked = DetectCuda();
  const CudaReport after = DetectCudaInUse();
  CHECK(before.built == asked.built);
  CHECK((before.devices == 0) == (before.reason.find("CUDA") != std::string::npos));
  CHECK(after.devices == asked.devices);
}

TEST_CASE("a driver too old for this build is named with its version and with the one that would do") {
  CHECK(WhyNoDevice(12040, 13000) ==
        "the driver of this machine supports CUDA 12.4; this build needs a driver for CUDA 13.0 or later");
  CHECK(WhyNoDevice(12080, 13010) ==
        "the driver of this machine supports CUDA 12.8; this build needs a driver for CUDA 13.0 or later");
  for (const int serves : {13000, 13020, 14000}) CHECK_FALSE(IsTooOld(serves, 13010));
  for (const int none_or_new : {0, 13000}) {
    CHECK_FALSE(IsTooOld(none_or_new, 13000));
    CHECK(WhyNoDevice(none_or_new, 13000) == "no CUDA device, or no driver for it, was found");
  }
}

TEST_CASE("a device that does not exist is refused by its number or for want of any") {
  DeviceEngineOptions options;
  options.device = 99;
  CHECK(CreateCudaEngine(options).status().code() == StatusCode::kUnsupported);
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
