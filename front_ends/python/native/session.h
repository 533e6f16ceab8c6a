// The monitor of one Python process: the core's Monitor, and the taps that its plans switch on and off.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "front_ends/python/native/auxiliary_capture.h"
#include "front_ends/python/native/context.h"
#include "front_ends/python/native/module_tap.h"
#include "front_ends/python/native/parameter_taps.h"
#include "stepwatch/hook_table.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"

namespace stepwatch::python {

// One parameter as the front end lists it.
struct FoundParameter {
  int chunk = 0;
  std::string name;
  PyObject* tensor = nullptr;  // borrowed
  bool requires_grad = true;
  bool counts_reduced = true;  // false: another rank writes the row of its reduced gradient
  int optimizer = -1;          // index, -1: of none
  std::optional<std::string> as_written;
};

// The hooks that a plan wants, as indices of the lists passed to Attach.
struct WantedHooks {
  std::vector<size_t> modules;
  std::vector<size_t> gradients;  // parameters with a wanted un-reduced gradient
};

// The parameters with one wanted kind, by result.
struct KindYield {
  SiteKind kind;
  std::vector<size_t> seen;
  std::vector<size_t> empty;   // no element on this rank
  std::vector<size_t> silent;  // no row, for an unknown reason
};

// Calls that wait for another thread release the GIL; those threads never acquire it. Called from Python threads only.
class Session final : public HookTable {
 public:
  // `torch`: the torch module. `on_event` is called on threads without the GIL.
  Session(PyObject* torch, Options options, bool main_grad, std::function<void(const Event&)> on_event);
  ~Session() override;

  // Starts the core's monitor: its errors are those of Monitor::Create.
  Status Start();
  // `on_swap` is called without arguments whenever the wanted hooks have changed, inside Attach, EndStep and Close.
  Status Attach(std::vector<ModuleEntry> modules, const std::vector<FoundParameter>& parameters, int optimizers,
                std::vector<std::string> operators, std::function<void()> on_swap);

  const WantedHooks& wanted() const { return wanted_; }
  std::shared_ptr<ModuleTap> module(size_t index) const { return modules_.at(index); }
  std::shared_ptr<ParameterTap> parameter(size_t index) const { return parameters_.at(index); }
  // Requests of the plan in force, other than hooks.
  const FrontEndRequests& requests() const { return requests_; }
  // Its statistics, by name; empty without a plan.
  const std::vector<std::string>& ops() const { return ops_; }
  AuxiliaryCapture& extras() { return extras_; }
  Context& context() const { return *context_; }
  // After Close it ignores all reports.
  Monitor& monitor() const { return *monitor_; }
  bool collecting() const { return context_->Collecting() != nullptr; }

  // The parameters of an optimizer.
  ParameterGroup& group(int optimizer) const { return *groups_.at(static_cast<size_t>(optimizer)); }
  // The results of each kind of parameter rows since the plan came into force.
  std::vector<KindYield> Yield() const;
  // The modules with rows that were called in training since then, and the others.
  std::pair<std::vector<size_t>, std::vector<size_t>> CalledAndUncalled() const;
  void EndStep();
  // Ends a step that is not collected; true if no hook needs to be added or removed for the next step.
  bool PassStep();

  // print_struct: passes the observed structure on, once, and waits until the file is written. False if no structure is
  // requested or none was observed.
  bool PublishStructure();
  Status Amend(const Amendment& amendment);
  RefreshOutcome Refresh(std::chrono::milliseconds timeout);
  bool Flush(std::chrono::milliseconds timeout);
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout);
  // Taps and hooks do nothing afterwards. Safe to call twice.
  Status Close(std::chrono::milliseconds timeout);

  // The parameters, which the session owns and not the taps, so that the garbage collector can see the owner.
  PyObject* kept() const { return kept_.ptr(); }
  void DetachParameters();

  void Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept override;

 private:
  void NameModules();
  void NotifySwap();
  void SendLate();
  void SetSites(const RecordLayout& layout);
  void ListWanted();

  const std::shared_ptr<Context> context_;
  Options options_;
  const bool main_grad_;
  std::unique_ptr<Monitor> monitor_;
  std::vector<std::shared_ptr<ModuleTap>> modules_;
  std::vector<std::shared_ptr<ParameterTap>> parameters_;
  Ref kept_;  // a list
  std::vector<bool> counts_reduced_;
  std::vector<std::unique_ptr<ParameterGroup>> groups_;  // one for each optimizer, the last for parameters of none
  WantedHooks wanted_;
  FrontEndRequests requests_;
  std::vector<std::string> ops_;
  AuxiliaryCapture extras_;
  std::function<void()> on_swap_;
};

}  // namespace stepwatch::python
