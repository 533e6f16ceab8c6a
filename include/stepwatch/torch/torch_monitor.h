// TorchMonitor: watches LibTorch models and optimizers while they train.
//
//   stepwatch::Watched<torch::optim::SGD> of_matrices(matrices, torch::optim::SGDOptions(0.02).momentum(0.95));
//   stepwatch::Watched<torch::optim::AdamW> of_the_rest(others, torch::optim::AdamWOptions(3e-4));
//   stepwatch::TorchMonitor monitor("config.json");
//   monitor.Attach(*model, {&of_matrices, &of_the_rest});  // or one: Attach(*model, optimizer)
//
// A step is an iteration of the training loop. It ends when each optimizer has stepped, in whatever order. One that
// steps again before that adds rows with the suffix @1; one that does not step while another one steps for the eighth
// time is left out until it steps again, which is reported once.
//
// Options::clock names the one of them that ends steps. EndStep() ends a step by hand and is, from its first call on or
// from the beginning (Options::ends_step_by_hand), the only thing that does. Optimizers that step in the backward pass
// end the step at the end of that pass.
//
// Micro-batches are told apart by the entries of the root module if it is watched (Watched<Net>), by BeginMicroBatch(),
// and otherwise by counting each module's calls against Options::grad_acc_steps.
//
// Modules are seen if they are Watched (stepwatch/torch/modules.h); parameters, gradients and optimizer state need
// nothing. A module or parameter that is registered under several names is listed under the first, as PyTorch does.
//
// Tensors in CPU memory are measured on the threads of at::parallel_for; tensors in CUDA memory on the current stream
// of their device, without waiting for it: rows follow when the device has come so far. What a device needs for that is
// allocated in Attach, for the devices of the parameters (tens of milliseconds each).
//
// A step that is a CUDA graph: capture it in a step that is collected, and call EndStep() after each replay, with the
// stream of the replay current; the rows of what was observed in the capture follow (docs/statistics.md).
//
// A model may change while it is trained. At each collected step it is looked at: parameters that are other tensors,
// frozen, unfrozen or moved between groups and optimizers, and modules that are replaced under their names, are
// followed in that step (the un-reduced gradient of a new tensor from the next step on); modules and parameters of new
// names from the next step on, under a new plan of the same window. Each kind of change is told once, and so is what
// cannot be followed: an optimizer or a model that is destroyed and replaced by one that is not attached, tensors that
// no module registers. An optimizer that is assigned to the variable that was attached is watched in its place; one
// that has stepped makes room for another that is attached later and updates all that it updates.
//
// Several updates of one parameter in a step give rows of their own, the second with the suffix @1. Forward passes in
// training mode without gradient have as many rows in a step as its training has (at least 512); what is more is left
// out and counted, so that the rows of gradients find places.
//
// Threads: Attach, Close, EndStep and the destructor belong to the training thread. The model and the optimizer may be
// destroyed before or after the monitor; nothing here keeps them alive, nor anything of autograd's graphs. In training
// nothing throws because of the monitor: trouble becomes an event and missing rows.
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
  // Throws std::invalid_argument if the job cannot be watched as told: in static mode a config file that is missing or
  // refused. (In dynamic mode that is an event, and the monitor waits for a good one.)
  explicit TorchMonitor(const std::string& config_path);
  explicit TorchMonitor(Options options);
  // Close with 5 s.
  ~TorchMonitor();
  TorchMonitor(const TorchMonitor&) = delete;
  TorchMonitor& operator=(const TorchMonitor&) = delete;

  // Watches a model and the optimizer that updates it. A model attached again is read anew (it has grown), another
  // model becomes the next chunk (CSV column vpp_stage), and so does each module of a vector. The running window goes
  // on. Throws std::invalid_argument if the optimizer is not Watched, if a module or the optimizer is watched by
  // another monitor, if a pointer is null, and in static mode if the config does not fit the model.
  void Attach(torch::nn::Module& model, torch::optim::Optimizer& optimizer);
  void Attach(const std::vector<torch::nn::Module*>& chunks, torch::optim::Optimizer& optimizer);
  void Attach(torch::nn::Module& model, const std::vector<torch::optim::Optimizer*>& optimizers);
  void Attach(const std::vector<torch::nn::Module*>& chunks, const std::vector<torch::optim::Optimizer*>& optimizers);
  // Without an optimizer: nothing is read around the update, and EndStep() must be called by hand.
  void Attach(torch::nn::Module& model);

  void BeginMicroBatch() noexcept;
  void EndStep() noexcept;
  // Looks at the config file now; what it armed is in force from the next step on.
  RefreshOutcome Refresh(std::chrono::milliseconds timeout);
  Monitor& core() noexcept;

  // Takes every hook off, ends the window, drains and writes back. Later calls do nothing.
  Status Close(std::chrono::milliseconds timeout = std::chrono::seconds(5));

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepwatch
