#include "operations/host/host_metrics.h"

#include <cmath>

namespace stepwatch::operations {

using http::MetricFamily;

std::vector<MetricFamily> HostFamilies(const HostSample& sample, const std::map<std::string, DiskSpace>& disks,
                                       const std::map<std::string, double>& checkpoint_bytes) {
  MetricFamily pressure{"stepwatchd_host_pressure_ratio",
                        "gauge",
                        "Share of the last 10 s in which some tasks, or all, waited for the resource.",
                        {}};
  for (const auto& [key, share] : sample.pressure) pressure.Add(share, {{"resource", key.first}, {"kind", key.second}});
  MetricFamily kills{
      "stepwatchd_host_oom_kills", "counter", "Processes killed for lack of memory since the host was started.", {}};
  if (sample.oom_kills) kills.Add(static_cast<double>(*sample.oom_kills));
  MetricFamily free{
      "stepwatchd_host_disk_free_bytes", "gauge", "Free space of the file system that holds the directory.", {}};
  MetricFamily size{
      "stepwatchd_host_disk_size_bytes", "gauge", "Size of the file system that holds the directory.", {}};
  MetricFamily left{
      "stepwatchd_host_disk_checkpoints_left", "gauge", "Number of further checkpoints of the run that fit.", {}};
  for (const auto& [path, disk] : disks) {
    free.Add(disk.free_bytes, {{"path", path}});
    size.Add(disk.size_bytes, {{"path", path}});
    for (const auto& [run, bytes] : checkpoint_bytes)
      if (bytes > 0 && std::isfinite(bytes))
        left.Add(std::floor(disk.free_bytes / bytes), {{"run", run}, {"path", path}});
  }
  return {std::move(pressure), std::move(kills), std::move(free), std::move(size), std::move(left)};
}

}  // namespace stepwatch::operations
