#include "operations/gpu/gpu_metrics.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "operations/gpu/nvml_abi.h"

namespace stepwatch::operations {
namespace {

using http::MetricFamily;
using http::MetricLabels;

struct Gauge {
  GpuField field;
  const char* name;
  const char* type;
  const char* help;
};

constexpr Gauge kGauges[] = {
    {GpuField::kTemperature, "stepwatchd_gpu_temperature_celsius", "gauge", "Temperature of the core."},
    {GpuField::kMemoryTemperature, "stepwatchd_gpu_memory_temperature_celsius", "gauge", "Temperature of the memory."},
    {GpuField::kSlowdownTemperature, "stepwatchd_gpu_slowdown_temperature_celsius", "gauge",
     "Core temperature at which the hardware slows down."},
    {GpuField::kPower, "stepwatchd_gpu_power_watts", "gauge", "Power draw."},
    {GpuField::kPowerLimit, "stepwatchd_gpu_power_limit_watts", "gauge", "Enforced limit of the power draw."},
    {GpuField::kEnergy, "stepwatchd_gpu_energy_joules", "counter", "Energy since the driver was loaded."},
    {GpuField::kUtilization, "stepwatchd_gpu_utilization_ratio", "gauge",
     "Share of time with any kernel, which is 1 in a hanging collective too."},
    {GpuField::kSmActive, "stepwatchd_gpu_sm_active_ratio", "gauge", "Mean share of busy multiprocessors."},
    {GpuField::kMemoryUsed, "stepwatchd_gpu_memory_used_bytes", "gauge", "Memory in use."},
    {GpuField::kMemoryTotal, "stepwatchd_gpu_memory_total_bytes", "gauge", "Size of the memory."},
    {GpuField::kRowRemapFailure, "stepwatchd_gpu_row_remap_failure", "gauge",
     "1: a row of the memory could not be replaced."},
    {GpuField::kRowRemapPending, "stepwatchd_gpu_row_remap_pending", "gauge",
     "1: a row of the memory is replaced at the next reset."},
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

MetricLabels LabelsOf(const GpuReading& gpu) {
  return {{"gpu_uuid", gpu.uuid}, {"gpu", gpu.gpu}};
}

MetricLabels LabelsOf(const GpuReading& gpu, std::string_view name, std::string value) {
  MetricLabels labels = LabelsOf(gpu);
  labels.emplace_back(name, std::move(value));
  return labels;
}

// The run that uses the GPU, if it is one.
std::string RunOf(const std::set<GpuUser>& users) {
  std::set<std::string> runs;
  for (const GpuUser& user : users) runs.insert(user.run);
  return runs.size() == 1 ? *runs.begin() : "";
}

void AddInfo(const GpuStatus& status, std::vector<MetricFamily>* families) {
  MetricFamily infos{"stepwatchd_gpu", "info", "A GPU, or a slice of one by MIG.", {}};
  MetricFamily processes{
      "stepwatchd_gpu_process", "gauge", "1: the rank computes on the GPU, or did a minute ago.", {}};
  for (const GpuReading& gpu : status.sample.gpus) {
    MetricLabels labels = LabelsOf(gpu, "name", gpu.name);
    labels.emplace_back("pci", gpu.pci);
    labels.emplace_back("driver", status.sample.driver);
    const std::set<GpuUser> users = status.users.Of(gpu.uuid);
    if (std::string run = RunOf(users); !run.empty()) labels.emplace_back("run", std::move(run));
    infos.Add(1, std::move(labels));
    for (const GpuUser& user : users) {
      MetricLabels of_process = LabelsOf(gpu, "run", user.run);
      of_process.emplace_back("rank", std::to_string(user.rank));
      processes.Add(1, std::move(of_process));
    }
  }
  families->push_back(std::move(infos));
  families->push_back(std::move(processes));
}

void AddValues(const GpuSample& sample, std::vector<MetricFamily>* families) {
  MetricFamily lost{
      "stepwatchd_gpu_lost", "gauge", "1: the driver no longer reaches the GPU, or asks for its reset.", {}};
  MetricFamily ecc{"stepwatchd_gpu_ecc_errors", "counter", "Errors of the memory since the driver was loaded.", {}};
  MetricFamily throttle{"stepwatchd_gpu_throttle_active", "gauge", "1: clocks are held back, by reason.", {}};
  MetricFamily links{"stepwatchd_gpu_nvlink_up", "gauge", "1: the NVLink is up.", {}};
  MetricFamily supported{
      "stepwatchd_gpu_field_supported", "gauge", "0: the device, or its driver, lacks the field.", {}};
  for (const GpuReading& gpu : sample.gpus) {
    if (gpu.parent.empty()) lost.Add(gpu.is_lost ? 1 : 0, LabelsOf(gpu));
    for (const auto& [field, type] :
         {std::pair(GpuField::kEccCorrected, "corrected"), std::pair(GpuField::kEccUncorrected, "uncorrected")})
      if (gpu[field]) ecc.Add(*gpu[field], LabelsOf(gpu, "type", type));
    if (const std::optional<double>& bits = gpu[GpuField::kThrottle])
      for (const Reason& reason : kReasons)
        throttle.Add((static_cast<uint64_t>(*bits) & reason.bit) != 0 ? 1 : 0, LabelsOf(gpu, "reason", reason.name));
    for (const auto& [link, is_up] : gpu.links) links.Add(is_up ? 1 : 0, LabelsOf(gpu, "link", std::to_string(link)));
    for (size_t i = 0; i < kGpuFields; ++i)
      if (gpu.supported[i])
        supported.Add(*gpu.supported[i] ? 1 : 0, LabelsOf(gpu, "field", std::string(NameOf(static_cast<GpuField>(i)))));
  }
  families->push_back(std::move(lost));
  for (const Gauge& gauge : kGauges) {
    MetricFamily family{gauge.name, gauge.type, gauge.help, {}};
    for (const GpuReading& gpu : sample.gpus)
      if (gpu[gauge.field]) family.Add(*gpu[gauge.field], LabelsOf(gpu));
    families->push_back(std::move(family));
  }
  for (MetricFamily* family : {&ecc, &throttle, &links, &supported}) families->push_back(std::move(*family));
}

}  // namespace

std::vector<MetricFamily> GpuFamilies(const GpuStatus& status) {
  std::vector<MetricFamily> families;
  if (!status.sample.has_library) return families;
  const auto one = [&](std::string_view name, std::string_view help, double value) {
    families.push_back({name, "gauge", help, {}});
    families.back().Add(value);
  };
  one("stepwatchd_gpu_sampler_stuck_seconds",
      "Time that the present call of the driver has not returned; 0: it is not late.", status.stuck_seconds);
  if (status.age_seconds) one("stepwatchd_gpu_sample_age_seconds", "Age of the values of GPUs.", *status.age_seconds);
  if (status.is_fabric_manager_active)
    one("stepwatchd_gpu_fabric_manager_active", "1: the unit nvidia-fabricmanager is active.",
        *status.is_fabric_manager_active ? 1 : 0);
  AddInfo(status, &families);
  families.push_back({"stepwatchd_gpu_xid_errors", "counter", "Xids of the driver since stepwatchd was started.", {}});
  for (const auto& [key, count] : status.xids)
    for (const GpuReading& gpu : status.sample.gpus)
      if (gpu.uuid == key.first)
        families.back().Add(static_cast<double>(count), LabelsOf(gpu, "xid", std::to_string(key.second)));
  if (status.age_seconds && *status.age_seconds <= GpuStatus::kAgeSecondsMax) AddValues(status.sample, &families);
  return families;
}

}  // namespace stepwatch::operations
