// A training job for tests: the real monitor with its loop, drain and files, on the synthetic model of `rehearse`.
//
// A test never sleeps for luck: edits are followed by Refresh, and it waits for the event or state of another thread.
#pragma once

#include <cctype>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/api/monitor_impl.h"
#include "src/base/file_system.h"
#include "src/testing/synthetic_model.h"
#include "stepwatch/graph_recorder.h"
#include "stepwatch/hook_table.h"
#include "stepwatch/monitor.h"
#include "stepwatch/recorder.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/reload/traces.h"
#include "tests/temporary_directory.h"

namespace stepwatch::testing {

// Comments, odd spaces and a tab: all of it must survive a write-back.
inline std::string ConfigText(const Wanted& wanted, const std::string& more = "") {
  if (*wanted.broken != '\0') return wanted.broken;
  std::ostringstream text;
  text << "{ // watched by hand\n  \"targets\": {},\n\t\"dynamic_on\"  :\t" << (wanted.dynamic_on ? "true" : "false")
       << " , /* \"dynamic_on\": true */\n  \"collect_times\":" << wanted.collect_times
       << ", \"step_interval\": " << wanted.step_interval << ",\n  \"start_step\": " << wanted.start_step
       << ",\n  \"wg_distribution\": " << (wanted.gradients ? "true" : "false")
       << ", \"param_distribution\": " << (wanted.gradients ? "false" : "true") << more
       << ",\n  \"ops\": [\"norm\"]\n}\n";
  return text.str();
}

inline Wanted Off() {
  return Wanted{.dynamic_on = false};
}

// A CSV file without quoted line ends: rows of cells, the header first.
using Table = std::vector<std::vector<std::string>>;

inline Table ReadTable(const std::string& path) {
  Table table;
  std::istringstream lines(Contents(path));
  for (std::string line; std::getline(lines, line);) {
    table.emplace_back();
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) table.back().push_back(cell);
  }
  return table;
}

class Job {
 public:
  explicit Job(const std::string& config, int layers = 2, int micro_batches = 1)
      : model(layers, 8, micro_batches), config_path(directory / "config.json") {
    if (!config.empty()) WriteByRename(config_path, config);
    options.config_path = config_path;
    options.output_dir = directory / "out";
    options.dynamic = true;
    options.grad_acc_steps = micro_batches;
    // Only Refresh looks, unless a test wants the watcher.
    options.use_inotify = false;
    options.look_interval = std::chrono::hours(1);
    options.on_event = [this](const Event& event) {
      const std::lock_guard<std::mutex> lock(mutex_);
      events_.push_back(event);
    };
  }
  ~Job() { Close(); }

  Status Create() { return Take(Monitor::Create(options)); }
  Status Attach() { return monitor->Attach(model.Sites(), &model); }
  void Start() {
    REQUIRE(Create().ok());
    REQUIRE(Attach().ok());
  }
  // Over a file system of the test's.
  void Start(base::FileSystem& files) {
    REQUIRE(Take(Monitor::Impl::CreateMonitor(options, files)).ok());
    REQUIRE(Attach().ok());
  }

  void TrainStep() {
    model.TrainStep(monitor->recorder(), monitor->step());
    std::vector<ModuleStructure> structure = model.TakeStructure();
    if (!structure.empty()) monitor->PublishStructure(std::move(structure));
    monitor->EndStep();
  }
  void TrainSteps(int64_t count) {
    for (int64_t i = 0; i < count; ++i) TrainStep();
  }
  // The steps of the model after it has grown.
  void TrainSteps(SyntheticModel& grown, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      grown.TrainStep(monitor->recorder(), monitor->step());
      monitor->EndStep();
    }
  }
  // Trains until the condition holds.
  bool TrainUntil(const std::function<bool()>& condition) {
    return Eventually([&] {
      TrainStep();
      return condition();
    });
  }

  void Save(const std::string& text) { WriteByRename(config_path, text); }
  RefreshOutcome Refresh() { return monitor->Refresh(std::chrono::seconds(10)); }
  RefreshOutcome Edit(const std::string& text) {
    Save(text);
    return Refresh();
  }
  // Waits until a window that has ended is drained and written back.
  void Settle() {
    REQUIRE(Eventually([this] { return monitor->GetStatus().state != RunState::kDraining; }));
  }

  std::vector<Event> Events(EventKind kind) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Event> found;
    for (const Event& event : events_)
      if (event.kind == kind) found.push_back(event);
    return found;
  }
  std::vector<Event> Events() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return events_;
  }
  size_t Count(EventKind kind) const { return Events(kind).size(); }
  bool WaitFor(EventKind kind, size_t count = 1) const {
    return Eventually([&] { return Count(kind) >= count; });
  }
  void DiscardEvents() {
    const std::lock_guard<std::mutex> lock(mutex_);
    events_.clear();
  }

  // Ends the job and settles the accounts: every plan's ledger, and the rows in the files.
  void Close() {
    if (!monitor) return;
    CHECK(monitor->Close(std::chrono::seconds(10)).ok());
    output_dir = monitor->GetStatus().output_dir;
    monitor.reset();
    CheckLedgers();
  }
  void CheckLedgers() {
    uint64_t written = 0;
    for (const Event& event : Events(EventKind::kDrained)) {
      CHECK(event.ledger.balanced());
      written += event.ledger.written;
    }
    CHECK(Count(EventKind::kDrained) == Count(EventKind::kApplied));
    CHECK(Count(EventKind::kFinished) == Count(EventKind::kApplied));
    if (counts_rows) CHECK(Rows() == written);
  }

  std::vector<std::string> CsvFiles() const {
    std::vector<std::string> files;
    if (output_dir.empty() || !std::filesystem::exists(output_dir)) return files;
    for (const auto& entry : std::filesystem::directory_iterator(output_dir))
      if (entry.path().extension() == ".csv") files.push_back(entry.path().string());
    return files;
  }
  uint64_t Rows() const {
    uint64_t rows = 0;
    for (const std::string& file : CsvFiles()) rows += ReadTable(file).size() - 1;
    return rows;
  }
  // The files of one kind, after Close.
  std::vector<Table> Tables(const std::string& kind) const {
    std::vector<Table> tables;
    for (const std::string& file : CsvFiles()) {
      const std::string name = std::filesystem::path(file).filename().string();
      if (name.rfind(kind + "_", 0) != 0 || std::isdigit(static_cast<unsigned char>(name[kind.size() + 1])) == 0)
        continue;
      tables.push_back(ReadTable(file));
      REQUIRE(tables.back().at(0).at(2) == "step");
    }
    return tables;
  }
  std::map<int64_t, int> RowsByStep(const std::string& kind) const {
    std::map<int64_t, int> rows;
    for (const Table& table : Tables(kind))
      for (size_t i = 1; i < table.size(); ++i) ++rows[std::stoll(table[i].at(2))];
    return rows;
  }
  std::vector<int64_t> Steps(const std::string& kind) const {
    std::vector<int64_t> steps;
    for (const auto& [step, rows] : RowsByStep(kind)) steps.push_back(step);
    return steps;
  }

  TemporaryDirectory directory;
  Options options;
  SyntheticModel model;
  std::string config_path;
  std::unique_ptr<Monitor> monitor;
  std::string output_dir;   // after Close
  bool counts_rows = true;  // false: the files hold more than this job's rows

 private:
  Status Take(Result<std::unique_ptr<Monitor>> created) {
    if (created.ok()) monitor = std::move(created).value();
    return created.status();
  }

  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

// A job that runs from its construction on.
struct StartedJob : Job {
  explicit StartedJob(const std::string& config, int layers = 2, int micro_batches = 1)
      : Job(config, layers, micro_batches) {
    Start();
  }
};

using Steps = std::vector<int64_t>;

inline Steps From(int64_t first, int64_t count) {
  Steps steps;
  for (int64_t i = 0; i < count; ++i) steps.push_back(first + i);
  return steps;
}

inline Amendment Ops(std::vector<std::string> names) {
  Amendment amendment;
  amendment.ops = std::move(names);
  return amendment;
}
inline Amendment Xy(bool wanted = true) {
  Amendment amendment;
  amendment.xy_distribution = wanted;
  return amendment;
}

}  // namespace stepwatch::testing
