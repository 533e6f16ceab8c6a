// Watches the hardware of this machine: its GPUs, unless another program samples them, and its host.
//
// On the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operations/daemon/daemon_settings.h"
#include "operations/gpu/gpu_watch.h"
#include "operations/host/host_watch.h"
#include "operations/runs/snapshot.h"

namespace stepwatch::operations {

class MachineWatch {
 public:
  struct Dependencies {
    std::function<double()> wall;
    std::function<std::vector<KnownProcess>()> processes;  // of the runs of this host
    std::function<void(Line line)> report;
    std::function<void(const std::string& note)> on_note;
  };

  MachineWatch(boost::asio::io_context& loop, Dependencies dependencies)
      : loop_(loop), dependencies_(std::move(dependencies)) {}

  // Begins to watch, or continues with other settings.
  void Apply(const GpuSettings& gpu, const HostSettings& host);
  void Stop();
  // `runs`: those whose checkpoints need room on the disks.
  std::vector<http::MetricFamily> Families(const std::vector<RunSnapshot>& runs) const;

 private:
  void StartGpus();

  boost::asio::io_context& loop_;
  const Dependencies dependencies_;
  std::string gpu_source_;
  HostSettings host_settings_;
  std::unique_ptr<GpuWatch> gpus_;  // null: another program samples them
  std::unique_ptr<HostWatch> host_;
};

}  // namespace stepwatch::operations
