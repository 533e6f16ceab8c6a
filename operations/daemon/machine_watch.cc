#include "operations/daemon/machine_watch.h"

#include <map>

namespace stepwatch::operations {

void MachineWatch::Apply(const GpuSettings& gpu, const HostSettings& host) {
  if (gpu.source != gpu_source_) {
    gpu_source_ = gpu.source;
    StartGpus();
  }
  if (host_ && host == host_settings_) return;
  host_settings_ = host;
  host_ = std::make_unique<HostWatch>(loop_, HostWatch::Options{.directories = host.directories});
  host_->Start();
}

void MachineWatch::StartGpus() {
  gpus_.reset();
  if (gpu_source_ != "nvml") return;
  GpuWatch::Options options;
  options.wall = dependencies_.wall;
  options.processes = dependencies_.processes;
  options.report = dependencies_.report;
  options.on_note = dependencies_.on_note;
  gpus_ = std::make_unique<GpuWatch>(loop_, std::move(options));
  gpus_->Start();
}

void MachineWatch::Stop() {
  gpus_.reset();
  host_.reset();
}

std::vector<http::MetricFamily> MachineWatch::Families(const std::vector<RunSnapshot>& runs) const {
  std::vector<http::MetricFamily> families;
  if (gpus_) families = gpus_->Families();
  if (!host_) return families;
  std::map<std::string, double> checkpoint_bytes;
  for (const RunSnapshot& run : runs)
    if (run.numbers.checkpoint_bytes && !run.ended) checkpoint_bytes[run.id] = *run.numbers.checkpoint_bytes;
  for (http::MetricFamily& family : host_->Families(checkpoint_bytes)) families.push_back(std::move(family));
  return families;
}

}  // namespace stepwatch::operations
