// The state of the GPUs of this host at one moment, as values. A missing value is absent, never zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::operations {

enum class GpuField : uint8_t {
  kTemperature,          // °C
  kMemoryTemperature,    // °C
  kSlowdownTemperature,  // °C, at which the hardware slows down
  kPower,                // W
  kPowerLimit,           // W
  kEnergy,               // J since the driver was loaded
  kUtilization,          // 0 to 1: share of time with any kernel
  kSmActive,             // 0 to 1: mean share of busy multiprocessors since the last sample
  kMemoryUsed,           // bytes
  kMemoryTotal,          // bytes
  kEccCorrected,         // since the driver was loaded
  kEccUncorrected,       // likewise
  kRowRemapFailure,      // 0 or 1
  kRowRemapPending,      // 0 or 1
  kThrottle,             // bits: see nvml_abi.h
  kLinks,                // has no value: see GpuReading::links
};
inline constexpr size_t kGpuFields = static_cast<size_t>(GpuField::kLinks) + 1;

// "temperature", "power_limit", …
const char* NameOf(GpuField field);

// A GPU, or a slice of one by MIG.
struct GpuReading {
  std::string uuid;
  std::string gpu;     // its number: "0", of a slice "0:1"
  std::string parent;  // UUID of the GPU of a slice; empty: it is none
  std::string name;
  std::string pci;  // "0000:3b:00"; empty: unknown
  bool is_lost = false;

  std::array<std::optional<double>, kGpuFields> values = {};
  // True: the device has it. False: it, or its driver, lacks it. Absent: the device did not answer this time.
  std::array<std::optional<bool>, kGpuFields> supported = {};
  std::map<unsigned, bool> links;  // NVLinks by number: up
  std::vector<int> processes;      // that compute on it

  const std::optional<double>& operator[](GpuField field) const { return values[static_cast<size_t>(field)]; }
};

struct GpuSample {
  std::string driver;
  std::vector<GpuReading> gpus;
  std::string trouble;  // why there are none; empty: no trouble
  bool has_library = false;
};

// "00000000:3B:00.0" and "PCI:0000:3b:00" as "0000:3b:00"; empty: it is no such address.
std::string PciAddress(std::string_view text_untrusted);

}  // namespace stepwatch::operations
