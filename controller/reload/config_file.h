// The config file of a run: looks at it, feeds its edits to the machine, and writes `dynamic_on: false` back when a
// window is over. Loop thread only, except for the counters.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller/journal/edit_history.h"
#include "controller/journal/file_queue.h"
#include "controller/journal/run_journal.h"
#include "controller/reload/config_writer.h"
#include "controller/reload/edit_pipeline.h"
#include "controller/reload/edit_reporter.h"
#include "controller/reload/ordered_edit.h"
#include "controller/reload/plan_controller.h"
#include "controller/reload/resampler.h"
#include "controller/reload/restart_guard.h"
#include "controller/status/job_status.h"
#include "controller/watch/watcher.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/config/config.h"
#include "stepwatch/options.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::reload {

class ConfigFile {
 public:
  // All of them must outlive the file.
  struct Dependencies {
    boost::asio::io_context* loop = nullptr;
    base::IoExecutor* io = nullptr;  // touches the file
    base::FileSystem* files = nullptr;
    PlanController* controller = nullptr;
    EditPipeline* pipeline = nullptr;
    RestartGuard* restart = nullptr;
    Resampler* resampler = nullptr;
    journal::RunJournal* journal = nullptr;
    journal::EditHistory* history = nullptr;
    EditReporter* reports = nullptr;
  };

  ConfigFile(const Options& options, const Dependencies& dependencies);

  // Static mode: reads and parses the file once; a refusal is returned as the error.
  Status ReadOnce();
  // Makes the watcher, which does not look yet.
  void MakeWatcher();
  // Starts watching with a look.
  void Watch();
  // True if there is a watcher: this process reads the file.
  bool is_watched() const { return watcher_ != nullptr; }
  // Looks at the file, and at the files that write-backs have displaced.
  void Refresh();
  // Looks at the file, then calls `then`.
  void LookNow(std::function<void()> then);
  // The next look treats the content of the file as new.
  void LookAgain();
  void Stop();

  // Looks that were requested and are not over.
  int looks_awaited() const { return looks_awaited_; }
  // No file operation is pending except looks.
  bool idle() const { return work_.idle(); }
  // Number of looks at the file. Any thread.
  status::LookCounts looks() const {
    using watch::LookCause;
    const auto of = [&](LookCause cause) { return looks_[static_cast<size_t>(cause)].load(); };
    return {of(LookCause::kEvent), of(LookCause::kSlow), of(LookCause::kAgain), of(LookCause::kRefresh)};
  }
  std::string watch_mode() const { return watcher_ ? watcher_->mode() : std::string(); }  // empty: not watched
  // The config that the file holds; null: unusable, or not read yet.
  std::shared_ptr<const config::Config> Config();

  // Writes `dynamic_on: false` into the file if it still holds the bytes, once the ranks of the job have written their
  // rows.
  void WriteBack(const reload::WriteBack& action);
  void WriteBackNow(const reload::WriteBack& action);
  ConfigWriter& writer() { return writer_; }
  const ConfigWriter& writer() const { return writer_; }
  OrderedStep& ordered_step() { return ordered_step_; }

 private:
  void OnLook(const watch::FileSnapshot& snapshot);
  void OnWroteBack(const reload::WriteBack& action, const writeback::WriteBackResult& result);
  void RetryWriteBack(const reload::WriteBack& action, const std::string& why);

  const Options& options_;
  const Dependencies parts_;
  std::unique_ptr<watch::Watcher> watcher_;
  journal::FileQueue work_;
  ConfigWriter writer_;
  OrderedStep ordered_step_;
  int looks_awaited_ = 0;
  std::array<std::atomic<uint64_t>, watch::kLookCauseCount> looks_{};
  struct {
    std::string read, seen;  // the hashes of the current edit and of the file
    std::shared_ptr<const config::Config> config;
  } in_file_;  // made by Config() for these
};

}  // namespace stepwatch::reload
