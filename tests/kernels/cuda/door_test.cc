// What a user of the build meets: an engine, or a sentence that says why there is none.

#include <cstring>

#include "kernels/cuda_in_use.h"
#include "kernels/device_engine.h"
#include "tests/catch.h"

namespace stepwatch::kernels::cuda::test {
namespace {

TEST_CASE("without a CUDA engine or device there is a clear sentence, otherwise an engine") {
  const CudaReport report = AskCuda();
  CHECK((std::strstr(report.code, "sm_") != nullptr) == report.built);
  const auto engine = CreateCudaEngine({});
  if (report.devices > 0) {
    CHECK(engine.ok());
    CHECK(std::strlen(report.reason) == 0);
    return;
  }
  REQUIRE_FALSE(engine.ok());
  CHECK(engine.status().code() == StatusCode::kUnsupported);
  CHECK(engine.status().message().find("CUDA") != std::string::npos);
  CHECK(std::strstr(report.reason, "CUDA") != nullptr);
}

TEST_CASE("who merely asks hears of the devices that the process has used, or why of none") {
  const CudaReport before = AskCudaInUse();
  const CudaReport asked = AskCuda();
  const CudaReport after = AskCudaInUse();
  CHECK(before.built == asked.built);
  CHECK((before.devices == 0) == (std::strstr(before.reason, "CUDA") != nullptr));
  CHECK(after.devices == asked.devices);
}

TEST_CASE("a device that does not exist is refused by its number or for want of any") {
  DeviceEngineOptions options;
  options.device = 99;
  CHECK(CreateCudaEngine(options).status().code() == StatusCode::kUnsupported);
}

}  // namespace
}  // namespace stepwatch::kernels::cuda::test
