// Writes the files of a run beside its rows: its directory, manifest.json, the model's structure, call
// stacks.
//
// Loop thread only; the files are touched on the executor, in the order of the calls here. No file is created before
// the first plan that writes; with the format `api` alone there is neither directory nor manifest. While the run lasts
// the manifest is rewritten every hour: programs that cannot see the process detect a live run by the age of this file.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/journal/file_queue.h"
#include "controller/watch/timer.h"
#include "src/base/file_system.h"
#include "src/output/run_record.h"
#include "stepwatch/event.h"
#include "stepwatch/module_structure.h"
#include "stepwatch/options.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::journal {

class RunJournal {
 public:
  struct Callbacks {
    std::function<void(EventKind, std::string)> emit;
    std::function<void(const std::string&)> on_directory;  // it is fixed
  };

  // `file_work` and `files` must outlive the journal, and `files` also any call that hangs in it.
  RunJournal(const Options& options, bool dynamic, boost::asio::io_context& loop, FileQueue* file_work,
             base::FileSystem* files, Callbacks callbacks);

  // Fixes the directory by the first plan with files: now or, if append_output may name an older one, when that is
  // found or known to be missing.
  void FixDirectory(const plan::Plan& plan);
  bool is_fixing_directory() const { return is_fixing_; }
  const std::string& directory() const { return directory_; }  // empty: not fixed

  // Only before the directory is fixed; later calls have no effect.
  void SetRunId(const std::string& run_id);
  void SetSites(std::shared_ptr<const SiteIndex> sites) { record_.SetSites(std::move(sites)); }

  // Each of these schedules a rewrite of manifest.json, a moment later.
  void AddPlan(const plan::Plan& plan);
  void Update(PlanId plan_id, const std::function<void(output::ManifestPlan&)>& change);
  void AddSegment(output::ManifestSegment segment);
  // Calls `then` when manifest.json contains all changes so far: at once if it does, later if it is being written, and
  // in any case after a second. Several callbacks run in the order in which they came. A callback that throws is called
  // again.
  void AfterSaved(std::function<void()> then);
  // True if no callback of AfterSaved waits, and all publications are written.
  bool settled() const { return thens_.empty() && publications_ == 0; }

  // A failed write of the manifest is no longer retried.
  void Stop();

  // See Monitor.
  void PublishStructure(std::vector<ModuleStructure> modules);
  void PublishStacks(std::vector<std::pair<std::string, std::string>> rows);

 private:
  struct Waiting;  // the manifest that waits to be written
  struct Saved {
    Status status;
    uint64_t version = 0;
  };
  struct AfterVersion {
    uint64_t version = 0;
    std::function<void()> then;
  };

  void Fix(std::string directory);
  void Save();
  void OnSaved(const Saved& saved);
  void ReportHealth(const Status& saved) noexcept;
  void SaveAgainLater();
  void SaveHourly();
  void CallUpTo(uint64_t version);
  void WaitFor(std::chrono::milliseconds time);
  void ReportSaved(const std::string& key, const Status& fault, const Result<std::string>& note);

  FileQueue* const file_work_;
  base::FileSystem* const files_;
  const Callbacks callbacks_;
  const std::string base_;
  const int rank_;
  output::RunRecord record_;
  std::string directory_;
  bool is_fixing_ = false;
  std::shared_ptr<Waiting> waiting_;
  uint64_t version_ = 0;  // of the record
  uint64_t saved_version_ = 0;
  std::deque<AfterVersion> thens_;
  int publications_ = 0;      // in progress
  watch::Timer timer_;        // for the first of the waiting callbacks
  watch::Timer retry_timer_;  // of a manifest whose write failed
  watch::Timer beat_timer_;
  bool is_stopped_ = false;
  bool is_failing_ = false;  // the last write of the manifest failed, and that was reported
};

}  // namespace stepwatch::journal
