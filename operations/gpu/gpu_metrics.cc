#include "operations/gpu/gpu_metrics.h"

#include <fmt/format.h>

#include <string>

#include "operations/gpu/nvml_abi.h"

namespace stepwatch::operations {
namespace {

using http::MetricsPage;

struct Gauge {
  GpuField field;
  const char* name;
  const char* type;
  const char* help;
};

constexpr Gauge kGauges[] = {
    {GpuField::kTemperature, "temperature_celsius", "gauge", "Temperature of the core."},
    {GpuField::kMemoryTemperature, "memory_temperature_celsius", "gauge", "Temperature of the memory."},
    {GpuField::kSlowdownTemperature, "slowdown_temperature_celsius", "gauge",
     "Core temperature at which the hardware slows down."},
    {GpuField::kPower, "power_watts", "gauge", "Power draw."},
    {GpuField::kPowerLimit, "power_limit_watts", "gauge", "Enforced limit of the power draw."},
    {GpuField::kEnergy, "energy_joules", "counter", "Energy since the driver was loaded."},
    {GpuField::kUtilization, "utilization_ratio", "gauge",
     "Share of time with any kernel, which is 1 in a hanging collective too."},
    {GpuField::kSmActive, "sm_active_ratio", "gauge", "Mean share of busy multiprocessors."},
    {GpuField::kMemoryUsed, "memory_used_bytes", "gauge", "Memory in use."},
    {GpuField::kMemoryTotal, "memory_total_bytes", "gauge", "Size of the memory."},
    {GpuField::kRowRemapFailure, "row_remap_failure", "gauge", "1: a row of the memory could not be replaced."},
    {GpuField::kRowRemapPending, "row_remap_pending", "gauge", "1: a row of the memory is replaced at the next reset."},
};

struct Reason {
  uint64_t bit;
  const char* name;
};
constexpr Reason kReasons[] = {
    {nvml::kSoftwarePowerCap, "sw_power_cap"}, {nvml::kHardwareSlowdown, "hw_slowdown"},
    {nvml::kSoftwareThermal, "sw_thermal"},    {nvml::kHardwareThermal, "hw_thermal"},
    {nvml::kPowerBrake, "hw_power_brake"},
};

std::string LabelsOf(const GpuReading& gpu) {
  return fmt::format("gpu_uuid=\"{}\",gpu=\"{}\"", MetricsPage::Escaped(gpu.uuid), gpu.gpu);
}

// The run that uses the GPU, if it is one.
std::string RunOf(const std::set<GpuUser>& users) {
  std::set<std::string> runs;
  for (const GpuUser& user : users) runs.insert(user.run);
  return runs.size() == 1 ? *runs.begin() : "";
}

void AddInfo(const GpuStatus& status, MetricsPage* page) {
  page->Family("stepwatchd_gpu", "info", "A GPU, or a slice of one by MIG.");
  for (const GpuReading& gpu : status.sample.gpus) {
    std::string labels =
        LabelsOf(gpu) + fmt::format(",name=\"{}\",pci=\"{}\",driver=\"{}\"", MetricsPage::Escaped(gpu.name), gpu.pci,
                                    MetricsPage::Escaped(status.sample.driver));
    const std::string run = RunOf(status.users.Of(gpu.uuid));
    if (!run.empty()) labels += fmt::format(",run=\"{}\"", MetricsPage::Escaped(run));
    page->Sample(1, labels);
  }
  page->Family("stepwatchd_gpu_process", "gauge", "1: the rank computes on the GPU, or did a minute ago.");
  for (const GpuReading& gpu : status.sample.gpus)
    for (const GpuUser& user : status.users.Of(gpu.uuid))
      page->Sample(1,
                   LabelsOf(gpu) + fmt::format(",run=\"{}\",rank=\"{}\"", MetricsPage::Escaped(user.run), user.rank));
}

void AddValues(const GpuSample& sample, MetricsPage* page) {
  page->Family("stepwatchd_gpu_lost", "gauge", "1: the driver no longer reaches the GPU, or asks for its reset.");
  for (const GpuReading& gpu : sample.gpus)
    if (gpu.parent.empty()) page->Sample(gpu.is_lost ? 1 : 0, LabelsOf(gpu));
  for (const Gauge& gauge : kGauges) {
    page->Family(std::string("stepwatchd_gpu_") + gauge.name, gauge.type, gauge.help);
    for (const GpuReading& gpu : sample.gpus)
      if (gpu[gauge.field]) page->Sample(*gpu[gauge.field], LabelsOf(gpu));
  }
  page->Family("stepwatchd_gpu_ecc_errors", "counter", "Errors of the memory since the driver was loaded.");
  for (const GpuReading& gpu : sample.gpus)
    for (const auto& [field, type] :
         {std::pair(GpuField::kEccCorrected, "corrected"), std::pair(GpuField::kEccUncorrected, "uncorrected")})
      if (gpu[field]) page->Sample(*gpu[field], LabelsOf(gpu) + fmt::format(",type=\"{}\"", type));
  page->Family("stepwatchd_gpu_throttle_active", "gauge", "1: clocks are held back, by reason.");
  for (const GpuReading& gpu : sample.gpus)
    for (const Reason& reason : kReasons)
      if (const std::optional<double>& bits = gpu[GpuField::kThrottle])
        page->Sample((static_cast<uint64_t>(*bits) & reason.bit) != 0 ? 1 : 0,
                     LabelsOf(gpu) + fmt::format(",reason=\"{}\"", reason.name));
  page->Family("stepwatchd_gpu_nvlink_up", "gauge", "1: the NVLink is up.");
  for (const GpuReading& gpu : sample.gpus)
    for (const auto& [link, is_up] : gpu.links)
      page->Sample(is_up ? 1 : 0, LabelsOf(gpu) + fmt::format(",link=\"{}\"", link));
  page->Family("stepwatchd_gpu_field_supported", "gauge", "0: the device, or its driver, lacks the field.");
  for (const GpuReading& gpu : sample.gpus)
    for (size_t i = 0; i < kGpuFields; ++i)
      if (gpu.supported[i])
        page->Sample(*gpu.supported[i] ? 1 : 0,
                     LabelsOf(gpu) + fmt::format(",field=\"{}\"", NameOf(static_cast<GpuField>(i))));
}

}  // namespace

void AddGpuMetrics(const GpuStatus& status, http::MetricsPage* page) {
  if (!status.sample.has_library) return;
  page->One("stepwatchd_gpu_sampler_stuck_seconds", "gauge",
            "Time that the present call of the driver has not returned; 0: it is not late.", status.stuck_seconds);
  if (status.age_seconds)
    page->One("stepwatchd_gpu_sample_age_seconds", "gauge", "Age of the values of GPUs.", *status.age_seconds);
  if (status.is_fabric_manager_active)
    page->One("stepwatchd_gpu_fabric_manager_active", "gauge", "1: the unit nvidia-fabricmanager is active.",
              *status.is_fabric_manager_active ? 1 : 0);
  AddInfo(status, page);
  page->Family("stepwatchd_gpu_xid_errors", "counter", "Xids of the driver since stepwatchd was started.");
  for (const auto& [key, count] : status.xids)
    for (const GpuReading& gpu : status.sample.gpus)
      if (gpu.uuid == key.first) page->Sample(count, LabelsOf(gpu) + fmt::format(",xid=\"{}\"", key.second));
  if (status.age_seconds && *status.age_seconds <= GpuStatus::kAgeSecondsMax) AddValues(status.sample, page);
}

}  // namespace stepwatch::operations
