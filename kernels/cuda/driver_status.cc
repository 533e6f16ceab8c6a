#include "kernels/cuda/driver_status.h"

#include <dlfcn.h>

namespace stepwatch::kernels::cuda {
namespace {

using GetDeviceCount = int (*)(int* count);  // cuDeviceGetCount; returns 0 on success

int Major(int version) {
  return version / 1000;
}

std::string Text(int version) {
  return std::to_string(Major(version)) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

// The driver rejects all calls before cuInit, so this call fails, without side effects, if CUDA is not initialized.
std::optional<int> DevicesInUse() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return std::nullopt;
  const auto count_devices = reinterpret_cast<GetDeviceCount>(::dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  const bool is_ready = count_devices != nullptr && count_devices(&count) == 0;
  (void)::dlclose(driver);
  return is_ready ? std::optional(count) : std::nullopt;
}

bool IsTooOld(int driver_version, int runtime_version) {
  return driver_version > 0 && Major(driver_version) < Major(runtime_version);
}

std::string WhyNoDevice(int driver_version, int runtime_version) {
  if (!IsTooOld(driver_version, runtime_version)) return "no CUDA device, or no driver for it, was found";
  return "the driver of this machine supports CUDA " + Text(driver_version) + "; this build needs a driver for CUDA " +
         std::to_string(Major(runtime_version)) + ".0 or later";
}

}  // namespace stepwatch::kernels::cuda
