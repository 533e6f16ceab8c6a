#include "controller/journal/edit_history.h"

#include <unistd.h>

#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "src/base/file.h"
#include "src/base/ignore_exceptions.h"
#include "src/base/mutex.h"
#include "src/output/history_file.h"

namespace stepwatch::journal {
namespace {

constexpr std::chrono::seconds kBetweenHistoryTries{1};
// Limit for a run that writes no files, or whose disk is full. Lines may hold a text of a megabyte each.
constexpr size_t kWaitingMax = 64;

std::string Absolute(const std::string& path, base::FileSystem& files) {
  std::string directory;
  if (path.empty() || path.front() == '/' || files.CurrentDirectory(&directory) != 0) return path;
  return base::JoinPath(directory, path);
}

int64_t NanosecondsNow() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(system_clock::now().time_since_epoch()).count();
}

const char* OutcomeOf(step::EndReason reason) {
  switch (reason) {
    case step::EndReason::kTimes: return "finished";
    case step::EndReason::kStopped: return "stopped";
    case step::EndReason::kReplaced: return "replaced";
    case step::EndReason::kLimited: return "limited";
    case step::EndReason::kClosed: break;
  }
  return "closed";
}

}  // namespace

// The lines that are not on the disk, oldest first. The executor takes all waiting ones at its turn.
struct EditHistory::Waiting {
  // True: no write is running, and the caller must begin one.
  bool Put(output::HistoryEntry entry) {
    const base::MutexLock lock(&mutex);
    entries.push_back(std::move(entry));
    if (entries.size() > kWaitingMax) {
      entries.pop_front();
      ++first;
    }
    return !std::exchange(is_expected, true);
  }
  // False: no line waits.
  bool Expect() {
    const base::MutexLock lock(&mutex);
    is_expected = !entries.empty();
    return is_expected;
  }
  void NobodyComes() {
    const base::MutexLock lock(&mutex);
    is_expected = false;
  }
  void SetRunId(const std::string& run_id) {
    const base::MutexLock lock(&mutex);
    for (output::HistoryEntry& entry : entries) entry.line.run_id = run_id;
  }
  Status Write(const std::string& directory, base::FileSystem& files) {
    base::MutexLock lock(&mutex);
    is_expected = false;
    const std::vector<output::HistoryEntry> taken(entries.begin(), entries.end());
    const uint64_t end = first + taken.size();
    lock.Unlock();
    Status status = output::AppendHistory(directory, taken, files);
    lock.Lock();
    if (!status.ok()) return status;
    for (; first < end && !entries.empty(); ++first) entries.pop_front();
    return status;
  }

  base::Mutex mutex;
  std::deque<output::HistoryEntry> entries STEPWATCH_GUARDED_BY(mutex);
  uint64_t first STEPWATCH_GUARDED_BY(mutex) = 0;  // the number of the oldest, counted over the run
  bool is_expected STEPWATCH_GUARDED_BY(mutex) = false;
};

EditHistory::EditHistory(const Options& options, boost::asio::io_context& loop, FileQueue* file_work,
                         base::FileSystem* files, Emit emit)
    : writes_(options.rank == 0),
      file_work_(file_work),
      files_(files),
      emit_(std::move(emit)),
      job_id_(options.job_id),
      config_path_(Absolute(options.config_path, *files)),
      run_id_(options.run_id),
      waiting_(std::make_shared<Waiting>()),
      retry_timer_(loop) {}

void EditHistory::SetDirectory(const std::string& directory) noexcept {
  base::IgnoreExceptions([&] {
    directory_ = directory;
    if (writes_ && waiting_->Expect()) Write();
  });
}

void EditHistory::SetRunId(const std::string& run_id) noexcept {
  if (!directory_.empty()) return;
  base::IgnoreExceptions([&] {
    run_id_ = run_id;
    waiting_->SetRunId(run_id);
  });
}

void EditHistory::Expect(const std::string& sha256, const output::EditPeer& peer) noexcept {
  base::IgnoreExceptions([&] {
    expected_ = sha256;
    expected_peer_ = peer;
  });
}

void EditHistory::Seen(const watch::FileSnapshot& snapshot, const std::string& old_sha256) noexcept {
  base::IgnoreExceptions([&] {
    Edit edit;
    edit.sha256 = snapshot.sha256;
    edit.old_sha256 = old_sha256;
    edit.text = std::make_shared<const std::string>(snapshot.bytes);
    edit.bytes = static_cast<int64_t>(snapshot.bytes.size());
    edit.owner_uid = snapshot.stamp.owner_uid;
    edit.modified = output::UtcText(snapshot.stamp.modified_ns);
    if (expected_ == edit.sha256) edit.peer = expected_peer_;
    expected_.clear();
    before_ = std::exchange(seen_, std::move(edit));
    reported_abort_.clear();
  });
}

void EditHistory::Overridden(const std::string& sha256, const std::string& text, const std::string& old_sha256,
                             const std::optional<output::EditPeer>& peer, bool is_override) noexcept {
  base::IgnoreExceptions([&] {
    Edit edit;
    edit.is_override = is_override;
    edit.sha256 = sha256;
    edit.old_sha256 = old_sha256;
    edit.text = std::make_shared<const std::string>(text);
    edit.peer = peer;
    edit.bytes = static_cast<int64_t>(text.size());
    before_ = std::exchange(seen_, std::move(edit));
    reported_abort_.clear();
  });
}

void EditHistory::BegunAgain(const output::EditPeer& peer) noexcept {
  base::IgnoreExceptions([&] { seen_.peer = peer; });
}

void EditHistory::NotBegun(const std::string& sha256, int64_t step, const std::string& message) noexcept {
  base::IgnoreExceptions([&] {
    output::HistoryLine line;
    line.outcome = "not_begun";
    line.step = step;
    line.message = message;
    Add(EditOf(sha256), std::move(line));
  });
}

void EditHistory::Off(const std::string& sha256) noexcept {
  base::IgnoreExceptions([&] {
    output::HistoryLine line;
    line.outcome = "off";
    Add(EditOf(sha256), std::move(line));
  });
}

void EditHistory::WroteBack(PlanId plan_id, const std::string& base_sha256, const std::string& sha256) noexcept {
  base::IgnoreExceptions([&] {
    Edit edit;
    edit.sha256 = sha256;
    edit.old_sha256 = base_sha256;
    output::HistoryLine line;
    line.outcome = "written_back";
    line.plan_id = plan_id;
    Add(edit, std::move(line));
  });
}

void EditHistory::Refused(const std::string& sha256, const TextPlace& place, const std::string& message) noexcept {
  base::IgnoreExceptions([&] {
    output::HistoryLine line;
    line.outcome = "refused";
    line.place = place;
    line.message = message;
    Add(EditOf(sha256), std::move(line));
  });
}

void EditHistory::Aborted(PlanId plan_id, const std::string& message) noexcept {
  base::IgnoreExceptions([&] {
    if (reported_abort_ == seen_.sha256) return;
    reported_abort_ = seen_.sha256;
    output::HistoryLine line;
    line.outcome = "aborted";
    line.plan_id = plan_id;
    line.message = message;
    Add(seen_, std::move(line));
  });
}

void EditHistory::Stopping(PlanId plan_id, const std::string& sha256) noexcept {
  base::IgnoreExceptions([&] {
    output::HistoryLine line;
    line.outcome = "stopping";
    line.plan_id = plan_id;
    Add(EditOf(sha256), std::move(line));
  });
}

void EditHistory::Armed(PlanId plan_id, const std::string& sha256, const std::string& text) noexcept {
  base::IgnoreExceptions([&] {
    Edit edit = EditOf(sha256);
    if (!edit.text) edit.text = std::make_shared<const std::string>(text);
    edit.bytes = static_cast<int64_t>(text.size());
    plans_.insert_or_assign(plan_id, Plan{std::move(edit)});
  });
}

void EditHistory::Superseded(PlanId plan_id) noexcept {
  base::IgnoreExceptions([&] {
    const auto plan = plans_.find(plan_id);
    const bool is_armed = plan != plans_.end();
    output::HistoryLine line;
    line.outcome = "superseded";
    line.plan_id = plan_id;
    Add(is_armed ? plan->second.edit : before_, std::move(line));
    if (is_armed) plans_.erase(plan);
  });
}

void EditHistory::Applied(PlanId plan_id, int64_t first_step) noexcept {
  base::IgnoreExceptions([&] {
    const auto plan = plans_.find(plan_id);
    if (plan == plans_.end()) return;
    output::HistoryLine line;
    line.outcome = "applied";
    line.plan_id = plan_id;
    line.step = first_step;
    Add(plan->second.edit, std::move(line));
    plan->second.edit.text.reset();
  });
}

void EditHistory::Finished(PlanId plan_id, int64_t last_step) noexcept {
  if (const auto plan = plans_.find(plan_id); plan != plans_.end()) plan->second.last_step = last_step;
}

void EditHistory::Ended(PlanId plan_id, step::EndReason reason, int64_t collected, const Ledger& ledger) noexcept {
  base::IgnoreExceptions([&] {
    const auto plan = plans_.find(plan_id);
    if (plan == plans_.end()) return;
    output::HistoryLine line;
    line.outcome = OutcomeOf(reason);
    line.plan_id = plan_id;
    line.step = plan->second.last_step;
    line.collected = collected;
    line.ledger = ledger;
    Add(plan->second.edit, std::move(line));
    plans_.erase(plan);
  });
}

void EditHistory::Stop() noexcept {
  is_stopped_ = true;
  base::IgnoreExceptions([&] { retry_timer_.Cancel(); });
}

// The same bytes may have been seen before those that were seen last.
EditHistory::Edit EditHistory::EditOf(const std::string& sha256) const {
  if (seen_.sha256 == sha256) return seen_;
  for (const auto& [id, plan] : plans_)
    if (plan.edit.sha256 == sha256) return plan.edit;
  Edit edit;
  edit.sha256 = sha256;
  return edit;
}

void EditHistory::Add(const Edit& edit, output::HistoryLine line) {
  if (!writes_) return;
  line.time = output::UtcText(NanosecondsNow());
  line.run_id = run_id_;
  line.job_id = job_id_;
  line.pid = static_cast<int>(::getpid());
  line.config_path = config_path_;
  line.sha256 = edit.sha256;
  line.old_sha256 = edit.old_sha256;
  line.bytes = edit.bytes;
  line.owner_uid = edit.owner_uid;
  line.modified = edit.modified;
  line.peer = edit.peer;
  line.is_volatile = edit.is_override;
  const bool is_first = waiting_->Put({std::move(line), edit.text});
  if (is_first && !directory_.empty()) Write();
}

void EditHistory::Write() {
  try {
    const auto status = std::make_shared<Status>();
    file_work_->Do([status, waiting = waiting_, directory = directory_,
                    files = files_] { *status = waiting->Write(directory, *files); },
                   [this, status](const Status& fault) { OnWritten(fault.ok() ? *status : fault); });
  } catch (...) {
    waiting_->NobodyComes();
    WriteLater();
  }
}

void EditHistory::OnWritten(const Status& status) {
  if (!status.ok()) WriteLater();
  ReportHealth(status);
}

void EditHistory::ReportHealth(const Status& status) {
  const bool was_failing = std::exchange(is_failing_, !status.ok());
  if (was_failing == is_failing_) return;
  base::IgnoreExceptions([&] {
    if (is_failing_)
      emit_(EventKind::kDegraded, "stepwatch_history.jsonl: " + status.message() + "; it is retried");
    else
      emit_(EventKind::kRecovered, "stepwatch_history.jsonl is written again");
  });
}

void EditHistory::WriteLater() {
  if (is_stopped_) return;
  retry_timer_.After(kBetweenHistoryTries, [this] {
    if (waiting_->Expect()) Write();
  });
}

}  // namespace stepwatch::journal
