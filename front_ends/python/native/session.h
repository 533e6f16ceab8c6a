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

// One parameter as the front end found it.
struct FoundParameter {
  int chunk = 0;
  std::string name;
  PyObject* tensor = nullptr;  // borrowed
  bool requires_grad = true;
  bool counts_reduced = true;  // false: another rank writes the row of its reduced gradient
  int optimizer = -1;          // index, -1: of none
  std::optional<std::string> as_written;
};

// Which hooks a plan wants; indices of what was handed to Attach.
struct WantedHooks {
  std::vector<size_t> modules;
  std::vector<size_t> gradients;  // parameters whose un-reduced gradient is wanted
};

// The parameters of which a plan wants one kind, by what has come of them.
struct KindYield {
  SiteKind kind;
  std::vector<size_t> seen;
  std::vector<size_t> empty;   // of which this rank has no element
  std::vector<size_t> silent;  // no row, nobody knows why
};

// Calls that wait for another thread give the GIL away; none of those threads ever takes it. Used from Python's threads
// alone.
class Session final : public HookTable {
 public:
  // `torch`: the module. `on_event` is called on threads without the GIL.
  Session(PyObject* torch, Options options, bool main_grad, std::function<void(const Event&)> on_event);
  ~Session() override;

  // Starts the core's monitor: its errors are those of Monitor::Create.
  Status Start();
  // `on_swap` is called without arguments whenever the wanted hooks have changed, inside of Attach, EndStep and Close.
  Status Attach(std::vector<ModuleEntry> modules, const std::vector<FoundParameter>& parameters, int optimizers,
                std::vector<std::string> operators, std::function<void()> on_swap);

  const WantedHooks& wanted() const { return wanted_; }
  std::shared_ptr<ModuleTap> module(size_t index) const { return modules_.at(index); }
  std::shared_ptr<ParameterTap> parameter(size_t index) const { return parameters_.at(index); }
  // The requests of the plan in force beside hooks.
  const FrontEndRequests& requests() const { return requests_; }
  // Its statistics, by name; empty without a plan.
  const std::vector<std::string>& ops() const { return ops_; }
  AuxiliaryCapture& extras() { return extras_; }
  int64_t step() const { return monitor_->step(); }
  bool collecting() const { return context_->Collecting() != nullptr; }

  int BeforeUpdate(int optimizer, const ParameterSources& sources);
  void AfterUpdate(int optimizer, const ParameterSources& sources);
  void AbandonUpdate(int optimizer);
  // What each kind of parameter rows has given since the plan came into force.
  std::vector<KindYield> Yield() const;
  // Of the modules that have rows to give, those that were called in training since then, and the others.
  std::pair<std::vector<size_t>, std::vector<size_t>> CalledAndUncalled() const;
  // Hooks see nothing while this is true: a framework runs modules on memory that is no data.
  void Pause(bool paused) { context_->is_paused = paused; }
  void EndStep();
  // Ends a step in which nothing is collected; true if nothing is to be hung or taken off for the next one either.
  bool PassStep();
  const Names& names() const { return context_->names; }
  void BeginMicroBatch() { context_->marks.Add(context_->step); }

  // print_struct: hands over what was seen, once, and waits until the file is there. False if none is wanted, or
  // nothing was seen.
  bool PublishStructure();
  void PublishStacks(std::vector<std::pair<std::string, std::string>> rows);
  Status Amend(const Amendment& amendment);
  RefreshOutcome Refresh(std::chrono::milliseconds timeout);
  bool Flush(std::chrono::milliseconds timeout);
  MonitorStatus GetStatus() const;
  std::vector<LatestValue> Latest(SiteKind kind, std::chrono::milliseconds timeout);
  // What the training loop says of itself, to Monitor's functions of these names. Nothing after Close.
  void Report(const std::vector<std::pair<std::string, double>>& numbers, int64_t step);
  PhaseMark SetPhase(Phase phase, std::chrono::milliseconds expires);
  void RestorePhase(PhaseMark phase);
  void ReportCheckpoint(int64_t step);
  void ReportSignal(int number);
  void ReportException(const ExceptionReport& exception);
  void ReportEnd(RunEnd end);
  void Warn(std::string message) { context_->reporter.Warn(std::move(message)); }
  void Caught(const std::string& where, const std::string& what) {
    context_->reporter.Caught(where.c_str(), what.c_str());
  }
  // Taps and hooks do nothing afterwards. Safe to call twice.
  Status Close(std::chrono::milliseconds timeout);

  // The parameters, which belong to the session and not to their taps, so that the garbage collector sees who holds
  // them.
  PyObject* kept() const { return kept_.ptr(); }
  void DetachParameters();

  void Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept override;

 private:
  void NameModules();
  void TellSwap();
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
