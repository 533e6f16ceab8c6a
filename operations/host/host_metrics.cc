#include "operations/host/host_metrics.h"

#include <fmt/format.h>

#include <cmath>

namespace stepwatch::operations {

using http::MetricsPage;

void AddHostMetrics(const HostSample& sample, const std::map<std::string, DiskSpace>& disks,
                    const std::map<std::string, double>& checkpoint_bytes, MetricsPage* page) {
  if (!sample.pressure.empty())
    page->Family("stepwatchd_host_pressure_ratio", "gauge",
                 "Share of the last 10 s in which some tasks, or all, waited for the resource.");
  for (const auto& [key, share] : sample.pressure)
    page->Sample(share, fmt::format("resource=\"{}\",kind=\"{}\"", key.first, key.second));
  if (sample.oom_kills)
    page->One("stepwatchd_host_oom_kills", "counter", "Processes killed for lack of memory since the host was started.",
              *sample.oom_kills);
  if (disks.empty()) return;
  const auto path_label = [](const std::string& path) {
    return fmt::format("path=\"{}\"", MetricsPage::Escaped(path));
  };
  page->Family("stepwatchd_host_disk_free_bytes", "gauge", "Free space of the file system that holds the directory.");
  for (const auto& [path, disk] : disks) page->Sample(disk.free_bytes, path_label(path));
  page->Family("stepwatchd_host_disk_size_bytes", "gauge", "Size of the file system that holds the directory.");
  for (const auto& [path, disk] : disks) page->Sample(disk.size_bytes, path_label(path));
  page->Family("stepwatchd_host_disk_checkpoints_left", "gauge", "Number of further checkpoints of the run that fit.");
  for (const auto& [run, bytes] : checkpoint_bytes)
    for (const auto& [path, disk] : disks)
      if (bytes > 0 && std::isfinite(bytes))
        page->Sample(std::floor(disk.free_bytes / bytes),
                     fmt::format("run=\"{}\",{}", MetricsPage::Escaped(run), path_label(path)));
}

}  // namespace stepwatch::operations
