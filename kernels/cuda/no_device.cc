#include "kernels/cuda/no_device.h"

namespace stepwatch::kernels::cuda {
namespace {

int Major(int version) {
  return version / 1000;
}

std::string Text(int version) {
  return std::to_string(Major(version)) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

bool IsTooOld(int driver_version, int runtime_version) {
  return driver_version > 0 && Major(driver_version) < Major(runtime_version);
}

std::string WhyNoDevice(int driver_version, int runtime_version) {
  if (!IsTooOld(driver_version, runtime_version)) return "no CUDA device, or no driver for it, was found";
  return "the driver of this machine supports CUDA " + Text(driver_version) + "; this build needs a driver for CUDA " +
         std::to_string(Major(runtime_version)) + ".0 or later";
}

}  // namespace stepwatch::kernels::cuda
