// The source of records that follows the log files of the settings.
//
// Files have a thread of their own; the rest runs on the loop's. One batch is read at a time, at once after a hint that
// a file has changed, and every second without one. While the records of earlier batches are not safe, few more are
// read: the files are the buffer. A store or an output that is away for longer only slows the reading down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/watch/inotify_hint.h"
#include "controller/watch/loop_mailbox.h"
#include "controller/watch/timer.h"
#include "operations/log_intake/followed_logs.h"
#include "operations/log_intake/lazy_recogniser.h"
#include "operations/log_intake/log_records.h"
#include "operations/log_intake/log_settings.h"
#include "operations/logs/log_file.h"
#include "src/base/file_system.h"
#include "src/base/io_executor.h"
#include "src/http/metric_family.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

struct LogFilesOptions {
  std::string state_directory;
  std::function<double()> wall;
  std::function<void(const std::string& text)> log;
  base::FileSystem* files = &base::FileSystem::Real();
};

class LogFiles {
 public:
  // `records` outlives it.
  LogFiles(boost::asio::io_context& loop, LogFilesOptions options, std::shared_ptr<LazyRecogniser> recogniser,
           LogRecords* records);
  ~LogFiles();
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  void Apply(const std::vector<LogFilesSettings>& settings);
  // About once a second; `running`: seconds of a clock that is never set.
  void Tick(double running);
  // Stores the positions of records that are safe, and reads no more.
  void Stop();
  std::vector<http::MetricFamily> Families() const;
  // The files in which this process has read lines of the run.
  std::vector<LogFile> FilesOf(const std::string& run) const;

 private:
  // For the thread of the files.
  struct Task {
    std::optional<std::vector<LogFilesSettings>> settings;
    std::vector<LogPlace> commits;
    bool reads = false;
    bool scans = false;
    double now = 0;
  };
  struct Looked;
  static constexpr size_t kRunsMax = 1024;
  static constexpr size_t kPathsMax = 4096;  // of a run

  bool MayRead() const;
  void Look();
  void OnLooked(Looked looked);
  void OnSafe(int64_t batch, const std::vector<LogPlace>& places);
  Task TakeTask(bool reads);
  void NotePaths(const std::vector<RunRecord>& records);

  const LogFilesOptions options_;
  const std::shared_ptr<watch::LoopMailbox> mailbox_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  const std::shared_ptr<FollowedLogs> logs_;  // shared with work that hangs
  LogRecords& records_;
  const std::shared_ptr<watch::InotifyHint> hint_;
  watch::Timer timer_;
  std::optional<std::vector<LogFilesSettings>> settings_;  // to be applied
  bool is_in_use_ = false;                                 // a file was ever followed
  bool is_looking_ = false;
  bool is_hang_logged_ = false;
  bool has_more_ = false;
  bool is_scan_due_ = false;
  bool is_commit_due_ = false;
  double running_ = 0;
  double looked_ = 0;                              // when the last look began
  std::deque<std::pair<int64_t, double>> unsafe_;  // batches whose records are not safe: number, and when they came
  std::map<std::pair<std::string, std::string>, LogPlace> commits_;  // by pattern and identity
  size_t commit_bytes_ = 0;                                          // read since positions were stored
  int64_t batches_ = 0;
  FollowerCounts counts_;
  std::map<std::string, std::map<std::string, std::optional<int64_t>>> paths_;  // by run: paths, with their ranks
  base::IoThread thread_{"stepwatch-logr"};
};

}  // namespace stepwatch::operations
