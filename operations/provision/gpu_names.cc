#include "operations/provision/gpu_names.h"

namespace stepwatch::operations {

GpuNames GpuNamesOf(GpuSource source) {
  if (source == GpuSource::kDcgm)
    return {
        .temperature = "DCGM_FI_DEV_GPU_TEMP",
        .memory_temperature = "DCGM_FI_DEV_MEMORY_TEMP",
        .slowdown_temperature = "DCGM_FI_DEV_SLOWDOWN_TEMP",
        .memory_ratio = "(DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE))",
        .activity = "(DCGM_FI_PROF_SM_ACTIVE or DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_DEV_GPU_UTIL / 100)",
        .activity_10m =
            "(max_over_time(DCGM_FI_PROF_SM_ACTIVE[10m]) or "
            "max_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[10m]) or "
            "max_over_time(DCGM_FI_DEV_GPU_UTIL[10m]) / 100)",
        .power = "DCGM_FI_DEV_POWER_USAGE",
        // The last Xid, which stays: only its changes count.
        .xid_errors = "changes(DCGM_FI_DEV_XID_ERRORS[10m])",
        .ecc_errors = "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[1h])",
    };
  return {
      .temperature = "stepwatchd_gpu_temperature_celsius",
      .memory_temperature = "stepwatchd_gpu_memory_temperature_celsius",
      .slowdown_temperature = "stepwatchd_gpu_slowdown_temperature_celsius",
      .memory_ratio = "(stepwatchd_gpu_memory_used_bytes / stepwatchd_gpu_memory_total_bytes)",
      .activity = "(stepwatchd_gpu_sm_active_ratio or stepwatchd_gpu_utilization_ratio)",
      .activity_10m =
          "(max_over_time(stepwatchd_gpu_sm_active_ratio[10m]) or "
          "max_over_time(stepwatchd_gpu_utilization_ratio[10m]))",
      .power = "stepwatchd_gpu_power_watts",
      .xid_errors = "sum without (xid) (increase(stepwatchd_gpu_xid_errors_total[10m]))",
      .ecc_errors = "increase(stepwatchd_gpu_ecc_errors_total{type=\"uncorrected\"}[1h])",
  };
}

}  // namespace stepwatch::operations
