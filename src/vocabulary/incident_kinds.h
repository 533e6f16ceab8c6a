// The kinds of incidents, the same for stepwatchd, the command line and the documentation.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepwatch::vocabulary {

enum class Severity : uint8_t { kInfo, kWarning, kCritical };

struct IncidentKindText {
  std::string_view name;
  Severity severity;  // of an incident; a heated device is only a kWarning
  std::string_view meaning;
  std::string_view advice;  // where to look next
};

// In the order of operations::IncidentKind.
inline constexpr IncidentKindText kIncidentKindTexts[] = {
    {"stuck", Severity::kCritical, "the run makes no progress",
     "Read the stacks (--stacks): the rank whose main thread is not in a collective blocks the others. A process in "
     "state T was stopped: kill -CONT PID. Without such a rank: network, file system, device of the named rank."},
    {"process_lost", Severity::kCritical, "a process ended without reporting an end",
     "Look at the end of that rank's output, at dmesg (OOM kill, device fault), and at the scheduler's record of the "
     "job. Restart the run from its checkpoint."},
    {"loss_nonfinite", Severity::kCritical, "the loss is NaN or infinite",
     "Go back to the checkpoint before that step. Collect `actv` and `grad_unreduced` with `nans` from there on: the "
     "first module with NaN is the cause. Check the batch of that step and the loss scale."},
    {"loss_spike", Severity::kWarning, "the loss jumped",
     "If it does not recover within some hundred steps, go back to a checkpoint and skip that data, or lower the "
     "learning rate. Compare gradients by layer: stepwatch top --kind grad_reduced --sort norm."},
    {"divergence", Severity::kCritical, "the loss keeps rising",
     "Check recent changes, the learning rate, and the norms of gradients and weights by layer; go back to a "
     "checkpoint from before the rise."},
    {"grad_nonfinite", Severity::kCritical, "a gradient norm is NaN or infinite",
     "With a loss scale, check whether it keeps falling. Without one, collect `grad_unreduced` with `nans`; the "
     "first module with NaN in backward order is the cause. If one rank alone is affected: its data or its device."},
    {"grad_explosion", Severity::kWarning, "gradients exploded",
     "Find the layer: stepwatch top --kind grad_reduced --sort norm. Is gradient clipping on? What was in that batch?"},
    {"grad_collapse", Severity::kWarning, "gradients vanished",
     "Is the loss masked out, are parameters frozen, is the learning rate 0? Find the layer where it begins: "
     "stepwatch top --kind grad_reduced --sort norm --reverse."},
    {"throughput_drop", Severity::kWarning, "training became slower",
     "Did sequences or batches grow? Does an evaluation, a checkpoint or the data loader take longer? Compare "
     "temperatures and clocks of devices, and step times of ranks."},
    {"straggler", Severity::kWarning, "a rank is slower than its peers",
     "Look at that rank's device (temperature, clocks, errors), at other processes of its host, and at its data "
     "loader. All other ranks wait for it in each step."},
    {"rank_disagreement", Severity::kWarning, "ranks disagree on a value",
     "Weights may have drifted apart: compare `param_origin` of the ranks with statistic `id`. Look for a device "
     "with memory errors, a rank with another config, or data with the wrong sharding."},
    {"checkpoint_overdue", Severity::kWarning, "the checkpoint is overdue",
     "Is the file system full or slow? Does the writer hang? Until the next checkpoint a restart loses all steps "
     "since."},
    {"exception", Severity::kCritical, "a rank raised an exception",
     "Read the stack (--stacks) of the rank that failed first; errors of other ranks about a closed connection "
     "follow from it."},
    {"out_of_memory", Severity::kCritical, "out of memory",
     "Host: data loader workers, pinned memory, tensors kept from each step; dmesg names the killed process. Device: "
     "batch, sequence length, fragmentation (PYTORCH_CUDA_ALLOC_CONF)."},
    {"gpu_fault", Severity::kCritical, "a device reported a fault",
     "nvidia-smi -q -i UUID, and dmesg for the Xid. Take the host out of the job before the restart if it comes "
     "again."},
};

}  // namespace stepwatch::vocabulary
