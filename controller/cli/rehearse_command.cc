#include "controller/cli/rehearse_command.h"

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "controller/cli/config_file.h"
#include "controller/cli/exit_code.h"
#include "controller/cli/print_answer.h"
#include "controller/control_socket/json_values.h"
#include "src/base/mutex.h"
#include "src/base/print.h"
#include "src/json/json.h"
#include "src/testing/synthetic_model.h"
#include "stepwatch/monitor.h"
#include "stepwatch/stores.h"

namespace stepwatch::cli {
namespace {

volatile std::sig_atomic_t rehearsal_interrupted = 0;
void OnInterrupt(int) {
  rehearsal_interrupted = 1;
}

std::string Margin(const Event& event) {
  return event.kind == EventKind::kWarning ? "          warning: " : "          ";
}

// Lines of the step thread and of the loop thread, one at a time and flushed at once.
class Printer {
 public:
  explicit Printer(bool json) : json_(json) {}

  void Print(const Event& event) {
    const base::MutexLock lock(&mutex_);
    Line(json_ ? json::Dump(control_socket::EventJson(event)) : Margin(event) + EventText(event));
  }
  // Ends the step and prints it in one piece, so that an event told before the line was there before the boundary.
  void EndStep(Monitor* monitor) {
    const base::MutexLock lock(&mutex_);
    const MonitorStatus status = monitor->GetStatus();
    monitor->EndStep();
    collected_ = collected_ || status.collecting_step;
    if (json_) {
      Line(json::Dump({{"step", status.step},
                       {"plan", status.plan_id},
                       {"collected", status.collecting_step},
                       {"state", RunStateName(status.state)}}));
    } else if (status.collecting_step) {
      Line("step " + std::to_string(status.step) + ": collected by plan " + std::to_string(status.plan_id));
    }
  }
  void Summary(const std::string& output_dir) {
    if (json_) return;
    Line(!output_dir.empty() ? "rows written to " + output_dir
         : collected_        ? "rows collected, no files written"
                             : "no step was collected");
  }
  void Line(const std::string& text) { (void)PrintAtOnce(text + "\n"); }

 private:
  const bool json_;
  base::Mutex mutex_;
  bool collected_ = false;
};

Options MonitorOptions(const RehearseArguments& arguments, Printer* printer) {
  Options options;
  options.config_path = arguments.file;
  if (arguments.dynamic) options.dynamic = true;
  options.output_dir = arguments.out;
  options.grad_acc_steps = arguments.grad_acc;
  options.start_iteration = arguments.start_iteration;
  options.rank = arguments.rank;
  options.world_size = arguments.world_size;
  if (!arguments.store.empty()) options.store = RunOnOwnThread(MakeFileStore(arguments.store));
  options.on_event = [printer](const Event& event) { printer->Print(event); };
  return options;
}

int Refused(const RehearseArguments& arguments, const Status& status) {
  base::Print(stderr, "%s\n", PlacedLine(arguments.file, "error", status.place(), status.message()).c_str());
  return kExitInvalid;
}

}  // namespace

int RunRehearse(const RehearseArguments& arguments) {
  Printer printer(arguments.json);
  auto created = Monitor::Create(MonitorOptions(arguments, &printer));
  if (!created.ok()) return Refused(arguments, created.status());
  Monitor& monitor = *created.value();
  testing::SyntheticModel model(arguments.sites, arguments.elements, arguments.grad_acc);
  const Status attached = monitor.Attach(model.Sites(), &model);
  if (!attached.ok()) return Refused(arguments, attached);

  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  auto next = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < arguments.steps && rehearsal_interrupted == 0; ++i) {
    model.TrainStep(monitor.recorder(), monitor.step());
    std::vector<ModuleStructure> structure = model.TakeStructure();
    if (!structure.empty()) monitor.PublishStructure(std::move(structure));
    next += arguments.step_time;
    std::this_thread::sleep_until(next);
    printer.EndStep(&monitor);
  }
  const std::string output_dir = monitor.GetStatus().output_dir;
  const Status closed = monitor.Close(std::chrono::seconds(10));
  printer.Summary(output_dir);
  if (rehearsal_interrupted != 0) return 130;
  return closed.ok() ? kExitDone : kExitDegraded;
}

}  // namespace stepwatch::cli
