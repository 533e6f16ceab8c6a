#include "controller/journal/run_journal.h"

#include <ctime>
#include <optional>

#include "src/base/file.h"
#include "src/base/mutex.h"
#include "src/output/run_directory.h"
#include "src/output/run_files.h"

namespace stepwatch::journal {
namespace {

// For a file system that hangs or is slow: no call waits longer for a manifest.
constexpr std::chrono::seconds kPatience{1};
constexpr std::chrono::milliseconds kEntryAfterFault{100};
constexpr std::chrono::seconds kBetweenManifestTries{1};
constexpr std::chrono::hours kBetweenBeats{1};

}  // namespace

// A manifest whose write has not begun when the next one comes is not written: the newer one replaces it.
struct RunJournal::Waiting {
  // True if no manifest waited: the caller must schedule Take.
  bool Put(output::Manifest manifest, uint64_t version) {
    const base::MutexLock lock(&mutex);
    newest_version = version;
    return !std::exchange(newest, std::move(manifest)).has_value();
  }
  output::Manifest Take(uint64_t* version) {
    const base::MutexLock lock(&mutex);
    *version = newest_version;
    return *std::exchange(newest, std::nullopt);
  }

  base::Mutex mutex;
  std::optional<output::Manifest> newest STEPWATCH_GUARDED_BY(mutex);
  uint64_t newest_version STEPWATCH_GUARDED_BY(mutex) = 0;
};

RunJournal::RunJournal(const Options& options, bool dynamic, boost::asio::io_context& loop, FileQueue* file_work,
                       base::FileSystem* files, Callbacks callbacks)
    : file_work_(file_work),
      files_(files),
      callbacks_(std::move(callbacks)),
      base_(output::OutputBase(options.output_dir)),
      rank_(options.rank),
      record_(options, dynamic),
      waiting_(std::make_shared<Waiting>()),
      timer_(loop),
      retry_timer_(loop),
      beat_timer_(loop) {}

void RunJournal::SetRunId(const std::string& run_id) {
  if (directory_.empty()) record_.SetRunId(run_id);
}

void RunJournal::FixDirectory(const plan::Plan& plan) {
  if (is_fixing_ || !directory_.empty() || !plan.rank_writes || plan.layout.format == OutputFormat::kApi) return;
  if (plan.append_output.size() != 2) return Fix("");
  const auto found = std::make_shared<output::OlderDirectory>();
  file_work_->Do([found, base = base_, rank = rank_, from = plan.append_output[0], to = plan.append_output[1],
                  files = files_] { *found = output::TakeOverDirectory(base, rank, from, to, *files); },
                 [this, found](const Status& fault) {
                   is_fixing_ = false;
                   Fix(found->path);
                   callbacks_.emit(EventKind::kNote, fault.ok() ? found->note : "append_output: " + fault.message());
                 });
  is_fixing_ = true;
}

// Empty: a new one.
void RunJournal::Fix(std::string directory) {
  directory_ = !directory.empty()
                   ? std::move(directory)
                   : base::JoinPath(base_, output::RunDirectoryName(std::time(nullptr), rank_,
                                                                    output::ShortId(record_.manifest().run_id)));
  callbacks_.on_directory(directory_);
  Save();
  SaveHourly();
}

void RunJournal::SaveHourly() {
  beat_timer_.After(kBetweenBeats, [this] {
    SaveHourly();  // first: if this throws, the call is repeated
    Save();
  });
}

void RunJournal::AddPlan(const plan::Plan& plan) {
  record_.AddPlan(plan);
  Save();
}

void RunJournal::Update(PlanId plan_id, const std::function<void(output::ManifestPlan&)>& change) {
  record_.Update(plan_id, change);
  Save();
}

void RunJournal::AddSegment(output::ManifestSegment segment) {
  record_.AddSegment(std::move(segment));
  Save();
}

void RunJournal::Save() {
  ++version_;
  if (directory_.empty() || !waiting_->Put(record_.manifest(), version_)) return;
  try {
    const auto saved = std::make_shared<Saved>();
    file_work_->Do(
        [saved, waiting = waiting_, directory = directory_, files = files_] {
          const output::Manifest manifest = waiting->Take(&saved->version);
          saved->status = output::SaveManifest(directory, manifest, *files);
        },
        [this, saved](const Status& fault) {
          if (!fault.ok()) saved->status = fault;
          OnSaved(*saved);
        });
  } catch (...) {
    uint64_t version = 0;
    (void)waiting_->Take(&version);
    throw;
  }
}

void RunJournal::OnSaved(const Saved& saved) {
  saved_version_ = saved.version;
  ReportHealth(saved.status);
  if (!saved.status.ok()) SaveAgainLater();
  CallUpTo(saved_version_);
}

void RunJournal::ReportHealth(const Status& saved) noexcept try {
  const bool was_failing = std::exchange(is_failing_, !saved.ok());
  if (was_failing == is_failing_) return;
  if (is_failing_)
    callbacks_.emit(EventKind::kDegraded, "manifest.json: " + saved.message() + "; it is retried");
  else
    callbacks_.emit(EventKind::kRecovered, "manifest.json is written again");
} catch (...) {  // no memory for the report
}

void RunJournal::SaveAgainLater() {
  if (is_stopped_) return;
  retry_timer_.After(kBetweenManifestTries, [this] { Save(); });
}

void RunJournal::Stop() {
  is_stopped_ = true;
  retry_timer_.Cancel();
  beat_timer_.Cancel();
}

void RunJournal::AfterSaved(std::function<void()> then) {
  if (thens_.empty() && (directory_.empty() || saved_version_ == version_)) return then();
  thens_.push_back({version_, std::move(then)});
  if (thens_.size() == 1) WaitFor(kPatience);
}

void RunJournal::CallUpTo(uint64_t version) {
  while (!thens_.empty() && thens_.front().version <= version) {
    AfterVersion next = std::move(thens_.front());
    thens_.pop_front();  // first: the call finds the journal settled
    try {
      next.then();
    } catch (...) {
      thens_.push_front(std::move(next));
      WaitFor(kEntryAfterFault);
      throw;
    }
  }
  if (thens_.empty()) timer_.Cancel();
}

void RunJournal::WaitFor(std::chrono::milliseconds time) {
  timer_.After(time, [this] { CallUpTo(version_); });
}

void RunJournal::PublishStructure(std::vector<ModuleStructure> modules) {
  const auto saved = std::make_shared<Result<std::string>>(Status());
  file_work_->Do([saved, base = base_, rank = rank_, modules = std::move(modules),
                  files = files_] { *saved = output::SaveStructure(base, rank, modules, *files); },
                 [this, saved](const Status& fault) { ReportSaved("print_struct", fault, *saved); });
  ++publications_;
}

void RunJournal::PublishStacks(std::vector<std::pair<std::string, std::string>> rows) {
  if (directory_.empty())
    return callbacks_.emit(EventKind::kNote,
                           "stack_info: the format of this run has no files, so the call stacks are not kept");
  const auto saved = std::make_shared<Result<std::string>>(Status());
  file_work_->Do([saved, directory = directory_, rows = std::move(rows),
                  files = files_] { *saved = output::SaveStacks(directory, rows, *files); },
                 [this, saved](const Status& fault) { ReportSaved("stack_info", fault, *saved); });
  ++publications_;
}

void RunJournal::ReportSaved(const std::string& key, const Status& fault, const Result<std::string>& note) {
  --publications_;
  const Status saved = fault.ok() ? note.status() : fault;
  if (saved.ok()) return callbacks_.emit(EventKind::kNote, key + ": " + note.value());
  callbacks_.emit(EventKind::kDegraded, key + ": " + saved.message());
}

}  // namespace stepwatch::journal
