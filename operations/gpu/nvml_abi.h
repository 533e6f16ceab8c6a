// The part of NVML's binary interface that stepwatchd calls: layouts, numbers and functions, which NVIDIA keeps stable
// over drivers. Declared here so that the build needs no header of the driver.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepwatch::operations::nvml {

using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kTimeout = 10;
inline constexpr Return kFunctionNotFound = 13;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;
inline constexpr Return kVersionMismatch = 18;  // library and driver
inline constexpr Return kArgumentVersionMismatch = 25;
inline constexpr Return kDeprecated = 26;

using Device = void*;
using EventSet = void*;
using GpmSample = void*;

inline constexpr unsigned kCoreSensor = 0;
inline constexpr unsigned kSlowdownThreshold = 1;
inline constexpr unsigned kCorrected = 0, kUncorrected = 1;
inline constexpr unsigned kSinceDriverLoad = 0;  // the counter that NVML calls volatile
inline constexpr unsigned kFieldMemoryTemperature = 82;
inline constexpr unsigned kLinksMax = 18;
inline constexpr uint64_t kXidEvent = 8;
inline constexpr unsigned kGpmSmUtilization = 2;
inline constexpr unsigned kGpmVersion = 1;
inline constexpr size_t kUuidBytes = 96, kNameBytes = 96, kDriverBytes = 80;

// Bits of the reasons for which clocks are below their maximum.
inline constexpr uint64_t kSoftwarePowerCap = 0x4, kHardwareSlowdown = 0x8, kSoftwareThermal = 0x20,
                          kHardwareThermal = 0x40, kPowerBrake = 0x80;

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;  // percent
};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
// The layout of versions 2 and 3 of the function.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
union Value {
  double d;
  unsigned ui;
  unsigned long ul;
  unsigned long long ull;
  long long sll;
  int si;
  unsigned short us;
};
struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  unsigned type;  // of the value: 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 long long, 5 int
  Return status;
  Value value;
};
struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
struct GpmMetric {
  unsigned id;
  Return status;
  double value;
  const char* names[3];
};
// The library uses the first `count` entries. Its array has grown over the years, and is shorter than this one.
struct GpmMetrics {
  unsigned version, count;
  GpmSample first, second;
  GpmMetric metrics[512];
};
struct GpmSupport {
  unsigned version, is_supported;
};

// Null: the library is too old, or too new, to have it.
struct Functions {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  Return (*driver_version)(char* text, unsigned size) = nullptr;
  Return (*device_count)(unsigned* count) = nullptr;
  Return (*device_at)(unsigned index, Device* device) = nullptr;
  Return (*uuid)(Device device, char* text, unsigned size) = nullptr;
  Return (*name)(Device device, char* text, unsigned size) = nullptr;
  Return (*pci)(Device device, PciInfo* pci) = nullptr;
  Return (*temperature)(Device device, unsigned sensor, unsigned* celsius) = nullptr;
  Return (*temperature_threshold)(Device device, unsigned threshold, unsigned* celsius) = nullptr;
  Return (*power)(Device device, unsigned* milliwatts) = nullptr;
  Return (*power_limit)(Device device, unsigned* milliwatts) = nullptr;
  Return (*energy)(Device device, unsigned long long* millijoules) = nullptr;
  Return (*utilization)(Device device, Utilization* utilization) = nullptr;
  Return (*memory)(Device device, Memory* memory) = nullptr;
  Return (*ecc_errors)(Device device, unsigned type, unsigned counter, unsigned long long* count) = nullptr;
  Return (*remapped_rows)(Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                          unsigned* failure) = nullptr;
  Return (*clock_reasons)(Device device, unsigned long long* reasons) = nullptr;  // by its new name, or its older one
  Return (*field_values)(Device device, int count, FieldValue* values) = nullptr;
  Return (*link_state)(Device device, unsigned link, unsigned* is_active) = nullptr;
  Return (*processes)(Device device, unsigned* count, ProcessInfo* processes) = nullptr;
  Return (*mig_mode)(Device device, unsigned* current, unsigned* pending) = nullptr;
  Return (*mig_count_max)(Device device, unsigned* count) = nullptr;
  Return (*mig_at)(Device device, unsigned index, Device* slice) = nullptr;
  Return (*gpu_instance)(Device slice, unsigned* id) = nullptr;
  Return (*event_set_create)(EventSet* set) = nullptr;
  Return (*event_set_free)(EventSet set) = nullptr;
  Return (*register_events)(Device device, unsigned long long types, EventSet set) = nullptr;
  Return (*event_wait)(EventSet set, EventData* data, unsigned milliseconds) = nullptr;
  Return (*gpm_support)(Device device, GpmSupport* support) = nullptr;
  Return (*gpm_alloc)(GpmSample* sample) = nullptr;
  Return (*gpm_free)(GpmSample sample) = nullptr;
  Return (*gpm_get)(Device device, GpmSample sample) = nullptr;
  Return (*gpm_mig_get)(Device device, unsigned gpu_instance, GpmSample sample) = nullptr;
  Return (*gpm_metrics)(GpmMetrics* metrics) = nullptr;
};

}  // namespace stepwatch::operations::nvml
