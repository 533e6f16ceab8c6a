// out_of_memory and gpu_fault from samples of hosts and GPUs.
#pragma once

#include <map>

#include "operations/detectors/detector.h"

namespace stepwatch::operations {

class HostMemoryDetector : public Detector {
 public:
  void OnEvent(const RunState& run, const Line& line, double now, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;
  void OnRestart() override;

 private:
  void DescribeMemory(const HostEvent& host, Evidence* evidence) const;
  void TakeCgroup(const HostEvent& host);
  void TakeException(const Line& line, const ExceptionEvent& exception, double now, Findings* findings);
  void TakeGone(const RunState& run, const Line& line, double now, Findings* findings);

  std::map<std::string, double> kills_;  // of a host, as counted by the host
  double psi_ = 0;
  // Samples of a cgroup with a limit, from before a kill has emptied it.
  std::optional<double> cgroup_kills_, cgroup_bytes_, cgroup_bytes_max_;
  std::optional<int64_t> gone_rank_;  // the first rank of the latest losses
  double gone_at_ = 0;
  std::optional<Finding> waiting_;  // for a process that is lost
  double killed_at_ = 0;
  std::optional<Finding> reported_;
  bool is_named_ = false;  // the rank has reported its own failure
};

class GpuDetector : public Detector {
 public:
  void OnEvent(const RunState& run, const Line& line, double now, Findings* findings) override;
  void OnTick(const RunState& run, double now, Findings* findings) override;

 private:
  enum class Judgement : uint8_t { kNone, kIfAlone, kFault };
  struct Gpu {
    std::optional<int64_t> rank;
    std::map<std::string, double> values;  // by field, from the last sample
    double hot_since = -1;
    int64_t hot_samples = 0;
    double links_down_before = -1;   // NVLinks that were down already; -1: unknown
    int64_t links_down_samples = 0;  // in a row with more
    double slow_seconds = 0;         // in which the hardware has held clocks back; as many without that undo them
    double slow_at = -1;             // the last sample of it
    int64_t slow_samples = 0;
    std::map<std::string, double> well_since;  // by reported field; kNever: the fault is present
    std::string reported_key;                  // of the incident that reports them
  };

  // One fault of several GPUs, such as that of a switch between them.
  struct Fault {
    Finding finding;
    std::string field;
    double value = 0;
    double at = 0;  // last
  };

  void Report(Finding finding, const GpuEvent& event, Gpu* gpu, double now, Findings* findings);
  void NoteRecovery(const GpuEvent& event, double now, Gpu* gpu) const;
  void WatchRecovery(const RunState& run, double now, Findings* findings);
  Judgement Judge(const RunState& run, const GpuEvent& event, Gpu* gpu, double now) const;
  static Judgement JudgeHeat(double celsius, double now, Gpu* gpu);
  static Judgement JudgeLinks(double down, Gpu* gpu);
  static Judgement JudgeSlowdown(const GpuEvent& event, double now, Gpu* gpu);
  Finding Describe(const RunState& run, const GpuEvent& event, const Gpu& gpu, const std::string& name) const;

  std::map<std::string, Gpu> gpus_;
  std::optional<Fault> fault_;             // reported last
  double sampled_at_ = -RunState::kNever;  // any GPU
  // The finding of the first sample of a GPU, unless others follow it at once.
  std::optional<Finding> first_;
  std::string first_name_;
  GpuEvent first_event_;
  double first_at_ = 0;
};

// True if an Xid is a fault of the hardware or its driver according to NVIDIA's catalogue of Xid errors; false for
// faults of the program and for codes that need no action.
bool IsHardwareXid(int64_t code);

}  // namespace stepwatch::operations
