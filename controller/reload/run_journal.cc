#include "controller/reload/run_journal.h"

#include <ctime>
#include <mutex>
#include <optional>

#include "src/base/file.h"
#include "src/output/run_directory.h"
#include "src/output/run_files.h"

namespace stepwatch::reload {

// A manifest that has not been begun when the next one comes is not written: the newer one takes its place.
struct RunJournal::Waiting {
  // True if nothing waited: the caller sees to it that somebody calls Take.
  bool Put(output::Manifest manifest) {
    const std::lock_guard<std::mutex> lock(mutex);
    return !std::exchange(newest, std::move(manifest)).has_value();
  }
  output::Manifest Take() {
    const std::lock_guard<std::mutex> lock(mutex);
    return *std::exchange(newest, std::nullopt);
  }

  std::mutex mutex;
  std::optional<output::Manifest> newest;  // guarded by mutex
};

RunJournal::RunJournal(const Options& options, bool dynamic, FileQueue* file_work, base::FileSystem* files,
                       Callbacks callbacks)
    : file_work_(file_work),
      files_(files),
      callbacks_(std::move(callbacks)),
      base_(output::OutputBase(options.output_dir)),
      rank_(options.rank),
      record_(options, dynamic),
      waiting_(std::make_shared<Waiting>()) {}

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
                   callbacks_.tell(EventKind::kNote, fault.ok() ? found->note : "append_output: " + fault.message());
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
}

void RunJournal::AddPlan(const plan::Plan& plan) {
  record_.AddPlan(plan);
  Save();
}

void RunJournal::Update(PlanId plan_id, const std::function<void(output::ManifestPlan&)>& change) {
  record_.Update(plan_id, change);
  Save();
}

void RunJournal::Save() {
  if (directory_.empty() || !waiting_->Put(record_.manifest())) return;
  try {
    const auto saved = std::make_shared<Status>();
    file_work_->Do([saved, waiting = waiting_, directory = directory_,
                    files = files_] { *saved = output::SaveManifest(directory, waiting->Take(), *files); },
                   [this, saved](const Status& fault) { OnSaved(fault.ok() ? *saved : fault); });
  } catch (...) {
    (void)waiting_->Take();
    throw;
  }
}

void RunJournal::OnSaved(const Status& saved) {
  const bool was_failing = std::exchange(is_failing_, !saved.ok());
  if (!saved.ok() && !was_failing) callbacks_.tell(EventKind::kDegraded, "manifest.json: " + saved.message());
}

void RunJournal::PublishStructure(std::string json) {
  const auto saved = std::make_shared<Result<std::string>>(Status());
  file_work_->Do([saved, base = base_, rank = rank_, json = std::move(json),
                  files = files_] { *saved = output::SaveStructure(base, rank, json, *files); },
                 [this, saved](const Status& fault) { TellSaved("print_struct", fault, *saved); });
}

void RunJournal::PublishStacks(std::vector<std::pair<std::string, std::string>> rows) {
  if (directory_.empty())
    return callbacks_.tell(EventKind::kNote,
                           "stack_info: the format of this run has no files, so the call stacks are not kept");
  const auto saved = std::make_shared<Result<std::string>>(Status());
  file_work_->Do([saved, directory = directory_, rows = std::move(rows),
                  files = files_] { *saved = output::SaveStacks(directory, rows, *files); },
                 [this, saved](const Status& fault) { TellSaved("stack_info", fault, *saved); });
}

void RunJournal::TellSaved(const std::string& key, const Status& fault, const Result<std::string>& note) {
  const Status saved = fault.ok() ? note.status() : fault;
  if (saved.ok()) return callbacks_.tell(EventKind::kNote, key + ": " + note.value());
  callbacks_.tell(EventKind::kDegraded, key + ": " + saved.message());
}

}  // namespace stepwatch::reload
