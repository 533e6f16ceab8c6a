#include "operations/log_intake/log_files.h"

#include <algorithm>
#include <chrono>

namespace stepwatch::operations {
namespace {

constexpr size_t kBatchesAhead = 4;
constexpr size_t kUnsafeMax = 4096;
constexpr double kSlowSeconds = 5;  // after which reading goes on, one batch a second
constexpr double kHangSeconds = 30;
constexpr size_t kCommitBytes = size_t{8} << 20;
constexpr std::chrono::milliseconds kHintDelay{100};
constexpr std::chrono::seconds kStopTime{2};

watch::PathChain ChainOf(const std::vector<std::string>& directories, base::FileSystem& files) {
  constexpr size_t kDirectoriesMax = 256;
  watch::PathChain chain;
  for (size_t i = 0; i < std::min(directories.size(), kDirectoriesMax); ++i) {
    struct stat about {};
    if (files.Stat(directories[i].c_str(), &about) != 0) continue;
    chain.directories.push_back({directories[i], about.st_dev, about.st_ino});
  }
  return chain;
}

}  // namespace

struct LogFiles::Looked {
  LogBatch batch;
  FollowerCounts counts;
  watch::InotifyHint::Arming arming;
};

LogFiles::LogFiles(boost::asio::io_context& loop, LogFilesOptions options, std::shared_ptr<LazyRecogniser> recogniser,
                   LogRecords* records)
    : options_(std::move(options)),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      logs_(std::make_shared<FollowedLogs>(options_.state_directory, std::move(recogniser), *options_.files)),
      records_(*records),
      hint_(std::make_shared<watch::InotifyHint>(
          loop,
          [this, alive = std::weak_ptr(alive_)] {
            if (!alive.expired()) timer_.After(kHintDelay, [this] { Look(); });
          },
          *options_.files)),
      timer_(loop) {}

LogFiles::~LogFiles() {
  Stop();
}

void LogFiles::Stop() {
  mailbox_->Close();
  timer_.Cancel();
  hint_->Stop();
  if (is_in_use_) (void)thread_.Post([logs = logs_, task = TakeTask(false)] { logs->Commit(task.commits, task.now); });
  is_in_use_ = false;
  (void)thread_.Stop(base::IoThread::Clock::now() + kStopTime);
}

void LogFiles::Apply(const std::vector<LogFilesSettings>& settings) {
  is_in_use_ = is_in_use_ || !settings.empty();
  settings_ = settings;
  Look();
}

void LogFiles::Tick(double running) {
  running_ = running;
  is_scan_due_ = is_commit_due_ = true;
  if (is_looking_ && running_ - looked_ > kHangSeconds && !std::exchange(is_hang_logged_, true))
    options_.log("reading log files has taken half a minute so far: a mount may hang, and lines wait in the files");
  Look();
}

bool LogFiles::MayRead() const {
  if (unsafe_.size() < kBatchesAhead) return true;
  return unsafe_.size() < kUnsafeMax && running_ - unsafe_.front().second > kSlowSeconds && running_ - looked_ >= 1;
}

LogFiles::Task LogFiles::TakeTask(bool reads) {
  Task task;
  task.settings = std::exchange(settings_, std::nullopt);
  task.reads = reads;
  task.scans = reads && std::exchange(is_scan_due_, false);
  task.now = options_.wall();
  if (reads && !is_commit_due_ && commit_bytes_ < kCommitBytes) return task;
  for (auto& [key, place] : commits_) task.commits.push_back(std::move(place));
  commits_.clear();
  is_commit_due_ = false;
  commit_bytes_ = 0;
  return task;
}

void LogFiles::Look() {
  if (is_looking_ || !is_in_use_) return;
  const bool reads = MayRead();
  if (!reads && !settings_ && (commits_.empty() || !is_commit_due_)) return;
  looked_ = running_;
  const auto looked = std::make_shared<Looked>();
  looked->arming = hint_->BeginArming();
  const auto done = [this, looked, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) OnLooked(std::move(*looked));
  };
  is_looking_ =
      thread_.Post([logs = logs_, task = TakeTask(reads), looked, done, mailbox = mailbox_, files = options_.files] {
        if (task.settings) logs->Apply(*task.settings);
        if (!task.commits.empty()) logs->Commit(task.commits, task.now);
        if (task.reads) looked->batch = logs->Read(task.now, task.scans);
        looked->counts = logs->counts();
        if (task.reads) looked->arming.WatchChain(ChainOf(looked->batch.directories, *files));
        mailbox->Post(done);
      });
}

void LogFiles::OnLooked(Looked looked) {
  is_looking_ = false;
  is_hang_logged_ = false;
  counts_ = looked.counts;
  LogBatch& batch = looked.batch;
  for (const std::string& note : batch.notes) options_.log(note);
  if (!batch.records.empty() || !batch.places.empty()) {
    const int64_t number = ++batches_;
    commit_bytes_ += batch.bytes;
    unsafe_.emplace_back(number, running_);
    NotePaths(batch.records);
    records_.Take(std::move(batch.records),
                  [this, alive = std::weak_ptr(alive_), number, places = std::move(batch.places)] {
                    if (!alive.expired()) OnSafe(number, places);
                  });
  }
  for (const std::string& run : batch.runs_over) records_.EndOfWriters(run);
  has_more_ = batch.has_more;
  hint_->EndArming(std::move(looked.arming));
  if (has_more_) Look();
}

void LogFiles::NotePaths(const std::vector<RunRecord>& records) {
  for (const RunRecord& each : records) {
    if (each.origin.run.empty() || each.record.source.empty()) continue;
    if (paths_.size() >= kRunsMax && !paths_.contains(each.origin.run)) continue;
    std::map<std::string, std::optional<int64_t>>& paths = paths_[each.origin.run];
    if (paths.size() < kPathsMax) paths.try_emplace(each.record.source, each.origin.rank);
  }
}

std::vector<LogFile> LogFiles::FilesOf(const std::string& run) const {
  std::vector<LogFile> files;
  const auto found = paths_.find(run);
  if (found == paths_.end()) return files;
  for (const auto& [path, rank] : found->second) files.push_back({path, rank});
  return files;
}

void LogFiles::OnSafe(int64_t batch, const std::vector<LogPlace>& places) {
  std::erase_if(unsafe_, [batch](const auto& each) { return each.first == batch; });
  for (const LogPlace& each : places) {
    LogPlace& kept = commits_[{each.pattern, each.place.identity}];
    if (kept.pattern.empty() || kept.place.offset < each.place.offset) kept = each;
  }
  if (has_more_) Look();
}

std::vector<http::MetricFamily> LogFiles::Families() const {
  if (!is_in_use_) return {};
  http::MetricFamily lines{"stepwatchd_logs_file_lines", "counter", "Lines read from log files.", {}};
  http::MetricFamily cut{"stepwatchd_logs_file_lines_cut", "counter", "Lines longer than 1 MiB, cut there.", {}};
  http::MetricFamily truncations{
      "stepwatchd_logs_file_truncations", "counter", "Log files that were truncated while being followed.", {}};
  http::MetricFamily lost{
      "stepwatchd_logs_file_texts_lost", "counter", "Log files that disappeared before their end was read.", {}};
  http::MetricFamily open{"stepwatchd_logs_files", "gauge", "Log files that are open now.", {}};
  lines.Add(static_cast<double>(counts_.lines), {});
  cut.Add(static_cast<double>(counts_.lines_cut), {});
  truncations.Add(static_cast<double>(counts_.truncations), {});
  lost.Add(static_cast<double>(counts_.texts_lost), {});
  open.Add(static_cast<double>(counts_.files), {});
  return {std::move(lines), std::move(cut), std::move(truncations), std::move(lost), std::move(open)};
}

}  // namespace stepwatch::operations
