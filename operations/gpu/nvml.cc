#include "operations/gpu/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <initializer_list>

namespace stepwatch::operations {
namespace {

// The first of the names that the library has.
template <class Function>
void Load(void* library, std::initializer_list<const char*> names, Function* function) {
  for (const char* name : names) {
    *function = reinterpret_cast<Function>(::dlsym(library, name));
    if (*function != nullptr) return;
  }
}

}  // namespace

Nvml::Nvml(void* library) : library_(library) {
  nvml::Functions& f = functions_;
  Load(library, {"nvmlInit_v2"}, &f.init);
  Load(library, {"nvmlShutdown"}, &f.shutdown);
  Load(library, {"nvmlSystemGetDriverVersion"}, &f.driver_version);
  Load(library, {"nvmlDeviceGetCount_v2"}, &f.device_count);
  Load(library, {"nvmlDeviceGetHandleByIndex_v2"}, &f.device_at);
  Load(library, {"nvmlDeviceGetUUID"}, &f.uuid);
  Load(library, {"nvmlDeviceGetName"}, &f.name);
  Load(library, {"nvmlDeviceGetPciInfo_v3"}, &f.pci);
  Load(library, {"nvmlDeviceGetTemperature"}, &f.temperature);
  Load(library, {"nvmlDeviceGetTemperatureThreshold"}, &f.temperature_threshold);
  Load(library, {"nvmlDeviceGetPowerUsage"}, &f.power);
  Load(library, {"nvmlDeviceGetEnforcedPowerLimit"}, &f.power_limit);
  Load(library, {"nvmlDeviceGetTotalEnergyConsumption"}, &f.energy);
  Load(library, {"nvmlDeviceGetUtilizationRates"}, &f.utilization);
  Load(library, {"nvmlDeviceGetMemoryInfo"}, &f.memory);
  Load(library, {"nvmlDeviceGetTotalEccErrors"}, &f.ecc_errors);
  Load(library, {"nvmlDeviceGetRemappedRows"}, &f.remapped_rows);
  Load(library, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
       &f.clock_reasons);
  Load(library, {"nvmlDeviceGetFieldValues"}, &f.field_values);
  Load(library, {"nvmlDeviceGetNvLinkState"}, &f.link_state);
  Load(library, {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}, &f.processes);
  Load(library, {"nvmlDeviceGetMigMode"}, &f.mig_mode);
  Load(library, {"nvmlDeviceGetMaxMigDeviceCount"}, &f.mig_count_max);
  Load(library, {"nvmlDeviceGetMigDeviceHandleByIndex"}, &f.mig_at);
  Load(library, {"nvmlDeviceGetGpuInstanceId"}, &f.gpu_instance);
  Load(library, {"nvmlEventSetCreate"}, &f.event_set_create);
  Load(library, {"nvmlEventSetFree"}, &f.event_set_free);
  Load(library, {"nvmlDeviceRegisterEvents"}, &f.register_events);
  Load(library, {"nvmlEventSetWait_v2"}, &f.event_wait);
  Load(library, {"nvmlGpmQueryDeviceSupport"}, &f.gpm_support);
  Load(library, {"nvmlGpmSampleAlloc"}, &f.gpm_alloc);
  Load(library, {"nvmlGpmSampleFree"}, &f.gpm_free);
  Load(library, {"nvmlGpmSampleGet"}, &f.gpm_get);
  Load(library, {"nvmlGpmMigSampleGet"}, &f.gpm_mig_get);
  Load(library, {"nvmlGpmMetricsGet"}, &f.gpm_metrics);
}

Result<std::shared_ptr<Nvml>> Nvml::Open(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return Status(StatusCode::kNotFound, fmt::format("cannot open {}: {}", library, why == nullptr ? "unknown" : why));
  }
  const std::shared_ptr<Nvml> opened(new Nvml(handle));
  const nvml::Functions& f = opened->functions_;
  if (f.init == nullptr || f.device_count == nullptr || f.device_at == nullptr || f.uuid == nullptr)
    return Status(StatusCode::kNotFound, library + " lacks functions that NVML has had for years");
  if (const nvml::Return status = f.init(); status != nvml::kSuccess)
    return Status(StatusCode::kUnavailable, fmt::format("nvmlInit_v2 returned {}", status));
  opened->is_begun_ = true;
  return opened;
}

Nvml::~Nvml() {
  if (is_begun_) (void)Call(functions_.shutdown);
  ::dlclose(library_);
}

}  // namespace stepwatch::operations
