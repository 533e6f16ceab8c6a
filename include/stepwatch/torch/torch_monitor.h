// TorchMonitor: watches LibTorch models and optimizers during training.
//
//   stepwatch::Watched<torch::optim::SGD> of_matrices(matrices, torch::optim::SGDOptions(0.02).momentum(0.95));
//   stepwatch::Watched<torch::optim::AdamW> of_the_rest(others, torch::optim::AdamWOptions(3e-4));
//   stepwatch::TorchMonitor monitor("config.json");
//   monitor.Attach(*model, {&of_matrices, &of_the_rest});  // or one: Attach(*model, optimizer)
//
// A step is one iteration of the training loop. It ends when each optimizer has stepped, in any order. An optimizer
// that steps again before that adds rows with the suffix @1. An optimizer that has not stepped when another one steps
// for the eighth time is left out until it steps again; this is reported once.
//
// Options::clock names the optimizer that alone ends steps. EndStep() ends a step by hand; from its first call on, or
// from the beginning with Options::ends_step_by_hand, only EndStep() ends steps. Several optimizers that step in the
// backward pass end the step at the end of that pass.
//
// Micro-batches are distinguished by the entries of the root module if it is watched (Watched<Net>), by
// BeginMicroBatch(), and otherwise by counting each module's calls against Options::grad_acc_steps.
//
// Modules have rows if they are Watched (stepwatch/torch/modules.h); parameters, gradients and optimizer state need no
// change. A module or parameter that is registered under several names is listed under the first, as in PyTorch.
//
// Tensors in CPU memory are measured on the threads of at::parallel_for, tensors in CUDA memory on the current stream
// of their device, without waiting for it: rows follow when the device has finished. Attach allocates the memory for
// that, on the devices of the parameters (tens of milliseconds each).
//
// CUDA graphs: capture the step while it is collected, and call EndStep() after each replay, with the stream of the
// replay current. Rows of the captured observations follow (docs/design/statistics.md).
//
// The model may change during training; the monitor checks it at each collected step. In the same step it follows
// parameters that are replaced, frozen, unfrozen or moved between groups and optimizers, and modules that are replaced
// under their names (the un-reduced gradient of a new tensor from the next step on). Modules and parameters with new
// names follow from the next step on, under a new plan of the same window. Each kind of change is reported once, and so
// are changes that cannot be followed: an optimizer or a model that is destroyed and replaced by one that is not
// attached, tensors that no module registers. An optimizer that is assigned to the attached variable is watched in its
// place. An optimizer that has stepped is released when another one that is attached later updates all that it updates.
//
// Several updates of one parameter in a step have separate rows, the second with the suffix @1. Forward passes in
// training mode without gradients have at most as many rows in a step as its training has (at least 512); further calls
// are left out and counted, so that rows of gradients have room.
//
// Threads: call Attach, Close, EndStep and the destructor on the training thread. The model and the optimizer may be
// destroyed before or after the monitor, which keeps neither them nor graphs of autograd alive. During training the
// monitor never throws: a fault becomes an event and missing rows.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "stepwatch/monitor.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace stepwatch {

class TorchMonitor {
 public:
  // Throws std::invalid_argument if the monitor cannot start, for instance if the config file is missing or refused in
  // static mode. (In dynamic mode that is an event, and the monitor waits for a good file.)
  explicit TorchMonitor(const std::string& config_path);
  explicit TorchMonitor(Options options);
  // Calls Close with a timeout of 5 s.
  ~TorchMonitor();
  TorchMonitor(const TorchMonitor&) = delete;
  TorchMonitor& operator=(const TorchMonitor&) = delete;

  // Watches a model and the optimizer that updates it. A model attached again is read again (it has grown); another
  // model becomes the next chunk (CSV column vpp_stage), and so does each module of a vector. The running window
  // continues. Throws std::invalid_argument if the optimizer is not Watched, if a module or the optimizer is watched by
  // another monitor, if a pointer is null, after Close, and in static mode if the config does not fit the model.
  void Attach(torch::nn::Module& model, torch::optim::Optimizer& optimizer);
  void Attach(const std::vector<torch::nn::Module*>& chunks, torch::optim::Optimizer& optimizer);
  void Attach(torch::nn::Module& model, const std::vector<torch::optim::Optimizer*>& optimizers);
  void Attach(const std::vector<torch::nn::Module*>& chunks, const std::vector<torch::optim::Optimizer*>& optimizers);
  // Without an optimizer: no tensor is read around the update, and the program must call EndStep().
  void Attach(torch::nn::Module& model);

  void BeginMicroBatch() noexcept;
  void EndStep() noexcept;
  // Looks at the config file now; an armed plan is in force from the next step on. See Monitor::Refresh.
  RefreshOutcome Refresh(std::chrono::milliseconds timeout);
  Monitor& core() noexcept;

  // Removes all hooks, ends the window, drains and writes back. Later calls do nothing. See Monitor::Close.
  Status Close(std::chrono::milliseconds timeout = std::chrono::seconds(5));

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepwatch
