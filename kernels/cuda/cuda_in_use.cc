#include "kernels/cuda/cuda_in_use.h"

#include <dlfcn.h>

namespace stepwatch::kernels::cuda {
namespace {

using GetDeviceCount = int (*)(int* count);  // of the driver; 0: done

}  // namespace

// The driver refuses every question but the one that makes it ready until that one was asked.
std::optional<int> DevicesInUse() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return std::nullopt;
  const auto count_devices = reinterpret_cast<GetDeviceCount>(::dlsym(driver, "cuDeviceGetCount"));
  int count = 0;
  const bool is_ready = count_devices != nullptr && count_devices(&count) == 0;
  (void)::dlclose(driver);
  return is_ready ? std::optional(count) : std::nullopt;
}

}  // namespace stepwatch::kernels::cuda
