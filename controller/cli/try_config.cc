// `stepwatch validate` and `rehearse`: try a config before a job uses it. A rehearsal runs the whole monitor on a
// synthetic model.
#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "controller/cli/config_file.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/stop_on_signals.h"
#include "controller/cli/text/time_text.h"
#include "controller/cli/verbs.h"
#include "controller/control_socket/json_values.h"
#include "src/base/mutex.h"
#include "src/base/print.h"
#include "src/json/json.h"
#include "src/testing/synthetic_model.h"
#include "stepwatch/monitor.h"
#include "stepwatch/stores.h"

namespace stepwatch::cli {
namespace {

// Not CLI::NonNegativeNumber: its message spells out the largest double.
const CLI::Range kFromZero(int64_t{0}, int64_t{1} << 53);

struct ValidateArguments {
  std::string file;
  bool json = false;
};

void PrintJson(const Result<ConfigFile>& file) {
  const Json json = file.ok() ? control_socket::ValidationJson(file.value().sha256, file.value().parsed)
                              : control_socket::ValidationJson("", file.status());
  base::Print(stdout, "%s\n", json::Dump(json).c_str());
}

void PrintLines(const std::string& path, const Result<ConfigFile>& file) {
  if (!file.ok()) {
    base::Print(stdout, "%s\n", PlacedLine(path, "error", file.status().place(), file.status().message()).c_str());
    return;
  }
  for (const config::Warning& warning : file.value().parsed.warnings)
    base::Print(stdout, "%s\n", PlacedLine(path, "warning", warning.place, warning.message).c_str());
  const size_t count = file.value().parsed.warnings.size();
  base::Print(stdout, "%s: valid%s\n", NameOfGiven(path).c_str(),
              count == 0 ? "" : (", warnings: " + std::to_string(count)).c_str());
}

int RunValidate(const ValidateArguments& arguments) {
  const Result<ConfigFile> file = ReadGivenConfig(arguments.file);
  if (arguments.json) {
    PrintJson(file);
  } else {
    PrintLines(arguments.file, file);
  }
  return file.ok() ? kExitDone : kExitInvalid;
}

struct RehearseArguments {
  std::string file;
  int64_t steps = 20;
  std::chrono::microseconds step_time{10000};
  int sites = 4;  // layers of the synthetic model
  int64_t elements = 1024;
  int grad_acc = 1;
  int64_t start_iteration = 0;
  bool dynamic = false;  // false: DYNAMIC_MONITOR decides
  std::string out;       // empty: MONITOR_OUTPUT_DIR, else ./monitor_output
  int rank = 0;
  int world_size = 1;
  std::string store;  // a directory that the ranks share; empty: no agreement
  bool json = false;
};

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
  // Ends the step and prints it in one piece, so that events printed before the line came before the boundary.
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

// 0: the last step was reached, even with refusals; 2: static mode and the config is unusable. On return all rows and
// the write-back are done.
int RunRehearse(const RehearseArguments& arguments) {
  Printer printer(arguments.json);
  auto created = Monitor::Create(MonitorOptions(arguments, &printer));
  if (!created.ok()) return Refused(arguments, created.status());
  Monitor& monitor = *created.value();
  testing::SyntheticModel model(arguments.sites, arguments.elements, arguments.grad_acc);
  const Status attached = monitor.Attach(model.Sites(), &model);
  if (!attached.ok()) return Refused(arguments, attached);

  const StopOnSignals signals;
  auto next = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < arguments.steps && interrupted == 0; ++i) {
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
  if (interrupted != 0) return kExitInterrupted;
  return closed.ok() ? kExitDone : kExitDegraded;
}

}  // namespace

void AddValidate(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* verb = app->add_subcommand("validate", "Check a config and print its errors and warnings");
  verb->add_option("FILE", arguments->file, "config.json; - reads standard input")->required();
  verb->add_flag("--json", arguments->json, "one JSON object instead of lines");
  verb->callback([=] { *exit_code = RunValidate(*arguments); });
}

void AddRehearse(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<RehearseArguments>();
  CLI::App* verb = app->add_subcommand(
      "rehearse", "Run the whole monitor on a synthetic model, to try a config before a job uses it");
  verb->add_option("FILE", arguments->file, "config.json")->required();
  verb->add_option("--steps", arguments->steps, "training steps")->check(kFromZero)->capture_default_str();
  verb->add_option_function<std::string>(
      "--step-time",
      [=](const std::string& text) {
        const auto step_time = ParseStepTime(text);
        if (!step_time) throw CLI::ValidationError("invalid duration \"" + text + "\"; examples: 10ms, 500us, 2s");
        arguments->step_time = *step_time;
      },
      "duration of a step, such as 10ms (the default), 500us or 2s");
  verb->add_option("--sites", arguments->sites, "layers of the synthetic model")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verb->add_option("--elements", arguments->elements, "elements of each tensor")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 28))
      ->capture_default_str();
  verb->add_option("--grad-acc", arguments->grad_acc, "micro-batches per step")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_option("--start-iteration", arguments->start_iteration, "number of the first step")
      ->check(kFromZero)
      ->capture_default_str();
  verb->add_flag("--dynamic", arguments->dynamic, "use dynamic mode (default: from DYNAMIC_MONITOR)");
  verb->add_option("--out", arguments->out, "output base (default: MONITOR_OUTPUT_DIR, else ./monitor_output)");
  verb->add_option("--rank", arguments->rank, "rank of this process in a job of several")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  verb->add_option("--world-size", arguments->world_size, "number of ranks of the job; run one `rehearse` for each")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  verb->add_option("--store", arguments->store, "new directory through which the ranks agree");
  verb->add_flag("--json", arguments->json, "one JSON object per step and per event");
  verb->callback([=] { *exit_code = RunRehearse(*arguments); });
}

}  // namespace stepwatch::cli
