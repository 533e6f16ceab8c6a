#include "controller/cli/incident_words.h"

namespace stepwatch::cli {
namespace {

// A sentence is told if the evidence has all of its {keys}, and one of them was not told of yet. {key:s} is a time in
// seconds, {key:%} a share.
const std::vector<IncidentWords> kWords = {
    {"stuck",
     "the run makes no progress",
     {"no step for {standstill_seconds:s}; the limit is {deadline_seconds:s}", "{witness}",
      "in phase {phase}; last module entered: {module}", "in phase {phase}", "process state {process_state}",
      "ranks {waiting_ranks} wait for it", "the usual step time is {step_seconds:s}",
      "last report {silent_seconds:s} before"},
     "Read the stacks (--stacks): the rank whose main thread is not in a collective blocks the others. A process in "
     "state T was stopped: kill -CONT PID. Without such a rank: network, file system, device of the named rank."},
    {"process_lost",
     "a process ended without reporting an end",
     {"{processes_gone} of {processes} processes ended", "the last signal was {signal}", "the run ended with {end}",
      "memory pressure was {psi_percent} %"},
     "Look at the end of that rank's output, at dmesg (OOM kill, device fault), and at the scheduler's "
     "record of the job. Restart the run from its checkpoint."},
    {"loss_nonfinite",
     "the loss is NaN or infinite",
     {"the loss was {value} at step {step}, first on ranks {ranks_first} of {ranks_reporting} reporting ranks",
      "the loss was {value} at step {step}", "the loss scale was {loss_scale}"},
     "Go back to the checkpoint before that step. Collect `actv` and `grad_unreduced` with `nans` from there on: the "
     "first module with NaN is the cause. Check the batch of that step and the loss scale."},
    {"loss_spike",
     "the loss jumped",
     {"the loss was {loss} at step {step}, {ratio} times its median of {loss_median}",
      "its usual deviation is {loss_deviation}", "{samples} consecutive samples are that high"},
     "If it does not recover within some hundred steps, go back to a checkpoint and skip that data, or lower "
     "the learning rate. Compare gradients by layer: stepwatch top --kind grad_reduced --sort norm."},
    {"divergence",
     "the loss keeps rising",
     {"the loss was {loss} at step {step}, {ratio} times its lowest level of {loss_lowest}"},
     "Check recent changes, the learning rate, and the norms of gradients and weights by layer; go back to a "
     "checkpoint from before the rise."},
    {"grad_nonfinite",
     "a gradient norm is NaN or infinite",
     {"the gradient norm was {value} at step {step}, first on ranks {ranks_first} of {ranks_reporting} reporting ranks",
      "the gradient norm was {value} at step {step}", "the loss scale was {loss_scale}"},
     "With a loss scale, check whether it keeps falling. Without one, collect `grad_unreduced` with `nans`; the first "
     "module with NaN in backward order is the cause. If one rank alone is affected: its data or its device."},
    {"grad_explosion",
     "gradients exploded",
     {"the gradient norm was {grad_norm} at step {step}, {ratio} times its median of {grad_norm_median}"},
     "Find the layer: stepwatch top --kind grad_reduced --sort norm. Is gradient clipping on? What was in that "
     "batch?"},
    {"grad_collapse",
     "gradients vanished",
     {"the gradient norm was {grad_norm} at step {step}; its level was {grad_norm_level}",
      "{samples} consecutive samples are that low"},
     "Is the loss masked out, are parameters frozen, is the learning rate 0? Find the layer where it begins: "
     "stepwatch top --kind grad_reduced --sort norm --reverse."},
    {"throughput_drop",
     "training became slower",
     {"{rate} {measure}, {ratio:%} of the {rate_baseline} before"},
     "Did sequences or batches grow? Does an evaluation, a checkpoint or the data loader take longer? Compare "
     "temperatures and clocks of devices, and step times of ranks."},
    {"straggler",
     "a rank is slower than its peers",
     {"its own part of a step takes {step_seconds:s}; the median of {ranks_reporting} ranks is {step_seconds_median:s}",
      "{ratio} times the median; its usual ratio is {ratio_usual}"},
     "Look at that rank's device (temperature, clocks, errors), at other processes of its host, and at its data "
     "loader. All other ranks wait for it in each step."},
    {"rank_disagreement",
     "ranks disagree on a value",
     {"{number} differs at step {step}: the named ranks have {values}, the median of {ranks_reporting} is {median}",
      "{number} differs at step {step}: {values}, the median is {median}"},
     "Weights may have drifted apart: compare `param_origin` of the ranks with statistic `id`. Look for a device with "
     "memory errors, a rank with another config, or data with the wrong sharding."},
    {"checkpoint_overdue",
     "the checkpoint is overdue",
     {"the last checkpoint is of step {checkpoint_step}, {steps_since} steps ago; the usual interval is "
      "{interval_steps}",
      "{seconds_since:s} ago; the usual interval is {interval_seconds:s}"},
     "Is the file system full or slow? Does the writer hang? Until the next checkpoint a restart loses all steps "
     "since."},
    {"exception",
     "a rank raised an exception",
     {"{type}: {message}", "{ranks_followed} ranks failed after it", "memory of the {where}"},
     "Read the stack (--stacks) of the rank that failed first; errors of other ranks about a closed "
     "connection follow from it."},
    {"out_of_memory",
     "out of memory",
     {"{type}: {message}", "memory of the {where}", "{oom_kills} processes were killed for memory on {host}",
      "{oom_kills} processes were killed for memory", "memory pressure was {psi_percent} %",
      "{ranks_followed} ranks failed after it"},
     "Host: data loader workers, pinned memory, tensors kept from each step; dmesg names the killed process. Device: "
     "batch, "
     "sequence length, fragmentation (PYTORCH_CUDA_ALLOC_CONF)."},
    {"gpu_fault",
     "a device reported a fault",
     {"{field} of device {uuid}"},
     "nvidia-smi -q -i UUID, and dmesg for the Xid. Take the host out of the job before the restart if it comes "
     "again."}};

const IncidentWords kUnknownKind = {"", "unknown kind (reported by a newer release)", {}, ""};

}  // namespace

const std::vector<IncidentWords>& AllIncidentWords() {
  return kWords;
}

const IncidentWords& WordsOfKind(const std::string& kind) {
  for (const IncidentWords& words : kWords)
    if (kind == words.kind) return words;
  return kUnknownKind;
}

}  // namespace stepwatch::cli
