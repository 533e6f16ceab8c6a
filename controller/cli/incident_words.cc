#include "controller/cli/incident_words.h"

namespace stepwatch::cli {
namespace {

// A sentence is told if the evidence has all of its {keys}, and one of them was not told of yet. {key:s} is a time in
// seconds, {key:%} a share.
const std::vector<IncidentWords> kWords = {
    {"stuck",
     "no step is finished any more",
     {"no step for {standstill_seconds:s}; {deadline_seconds:s} were allowed", "{witness}",
      "in phase {phase}; the module that was entered last is {module}", "in phase {phase}",
      "process state {process_state}", "ranks {waiting_ranks} wait for it", "a step took {step_seconds:s}",
      "heard last {silent_seconds:s} before"},
     "Read the stacks (--stacks): the rank whose main thread is in no collective holds the others up. A process in "
     "state T was stopped: kill -CONT PID. Without such a rank: network, file system, device of the named rank."},
    {"process_lost",
     "a process is gone without a word",
     {"{processes_gone} of {processes} processes are gone", "the last signal was {signal}", "the run ended with {end}",
      "memory pressure was {psi_percent} %"},
     "Look at the end of that rank's output, at dmesg (killed for memory, a fault of the device), and at what the "
     "scheduler says of the job. The run has to be restarted from its checkpoint."},
    {"loss_nonfinite",
     "the loss is no number",
     {"the loss was {value} at step {step}, first on ranks {ranks_first} of {ranks_reporting} that report it",
      "the loss was {value} at step {step}", "the loss scale was {loss_scale}"},
     "Go back to the checkpoint before that step. Collect `actv` and `grad_unreduced` with `nans` from there on: the "
     "first module with some is the cause. Look at the batch of that step and at the loss scale."},
    {"loss_spike",
     "the loss has jumped",
     {"the loss was {loss} at step {step}, {ratio} times its median of {loss_median}",
      "its usual deviation is {loss_deviation}", "{samples} samples in a row are that high"},
     "If it does not come back within some hundred steps, go back to a checkpoint and leave that data out, or lower "
     "the learning rate. Compare gradients by layer: stepwatch top --kind grad_reduced --sort norm."},
    {"divergence",
     "the loss grows and grows",
     {"the loss was {loss} at step {step}, {ratio} times its lowest level of {loss_lowest}"},
     "Look at what was changed, at the learning rate and at the norms of gradients and weights by layer; go back to a "
     "checkpoint from before it grew."},
    {"grad_nonfinite",
     "a gradient norm is no number",
     {"the gradient norm was {value} at step {step}, first on ranks {ranks_first} of {ranks_reporting} that report it",
      "the gradient norm was {value} at step {step}", "the loss scale was {loss_scale}"},
     "With a loss scale: is it falling all the time? Without one: collect `grad_unreduced` with `nans`; the first "
     "module with some in the order of the backward pass is the cause. One rank alone: its data or its device."},
    {"grad_explosion",
     "gradients have become very large",
     {"the gradient norm was {grad_norm} at step {step}, {ratio} times its median of {grad_norm_median}"},
     "See in which layer: stepwatch top --kind grad_reduced --sort norm. Is gradient clipping on? What was in that "
     "batch?"},
    {"grad_collapse",
     "gradients have all but vanished",
     {"the gradient norm was {grad_norm} at step {step}; its level was {grad_norm_level}",
      "{samples} samples in a row are that low"},
     "Is the loss masked out, are parameters frozen, has the learning rate become 0? See in which layer it begins: "
     "stepwatch top --kind grad_reduced --sort norm --reverse."},
    {"throughput_drop",
     "training has become slower",
     {"{rate} {measure} are {ratio:%} of the {rate_baseline} before"},
     "Did sequences or batches grow, is an evaluation or a checkpoint to blame, is the data late? Compare "
     "temperatures and clocks of devices, and step times of ranks."},
    {"straggler",
     "a rank is slower than its peers",
     {"its own part of a step takes {step_seconds:s}; the median of {ranks_reporting} ranks is {step_seconds_median:s}",
      "that is {ratio} times as long, where {ratio_usual} is usual"},
     "Look at that rank's device (temperature, clocks, errors), at other processes of its host, and at its data "
     "loader. All others wait for it in each step."},
    {"rank_disagreement",
     "ranks disagree in a number",
     {"{number} differs at step {step}: the ranks named have {values}, the median of {ranks_reporting} is {median}",
      "{number} differs at step {step}: {values}, the median is {median}"},
     "Weights may have drifted apart: compare `param_origin` of the ranks with statistic `id`. Look for a device with "
     "memory errors, a rank with another config, or data that is not sharded as meant."},
    {"checkpoint_overdue",
     "no checkpoint for too long",
     {"the last one was of step {checkpoint_step}, {steps_since} steps ago; {interval_steps} are usual",
      "that is {seconds_since:s} ago; {interval_seconds:s} are usual"},
     "Is the file system full or slow, does the writer hang? Until there is one, a restart costs all steps since."},
    {"exception",
     "a rank has raised an exception",
     {"{type}: {message}", "{ranks_followed} ranks failed after it", "memory of the {where}"},
     "Read the stack (--stacks) of the rank that failed first; what other ranks say of a closed connection follows "
     "from it."},
    {"out_of_memory",
     "memory has run out",
     {"{type}: {message}", "memory of the {where}", "{oom_kills} processes were killed for memory on {host}",
      "{oom_kills} processes were killed for memory", "memory pressure was {psi_percent} %",
      "{ranks_followed} ranks failed after it"},
     "Host: data loader workers, pinned memory, what is kept of each step; dmesg names who was killed. Device: batch, "
     "sequence length, fragmentation (PYTORCH_CUDA_ALLOC_CONF)."},
    {"gpu_fault",
     "a device reports a fault",
     {"{field} of device {uuid}"},
     "nvidia-smi -q -i UUID, and dmesg for the Xid. Take the host out of the job before the restart if it comes "
     "again."}};

const IncidentWords kUnknownKind = {"", "a kind that this release has no words for", {}, ""};

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
