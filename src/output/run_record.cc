#include "src/output/run_record.h"

#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "src/base/file.h"
#include "src/output/run_directory.h"
#include "src/output/stack_info.h"

namespace stepwatch::output {
namespace {

// Plans kept in the manifest: a run that is steered for weeks must not grow its file without end.
constexpr size_t kPlansKept = 1000;

std::string LocalTime(std::time_t now) {
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &local);
  return text;
}

// The manifest of the run that wrote here before stays readable under the first free of stepwatch-manifest-1.json, -2,
// …. What cannot be renamed is replaced by the new one.
void KeepOlderManifest(const std::string& directory, base::FileSystem& files) {
  constexpr int kKeptMax = 10000;
  const std::string manifest = base::JoinPath(directory, "manifest.json");
  for (int i = 1; i <= kKeptMax; ++i) {
    const std::string kept = base::JoinPath(directory, "stepwatch-manifest-" + std::to_string(i) + ".json");
    if (base::Exists(kept, files)) continue;
    (void)files.Rename(manifest.c_str(), kept.c_str());
    return;
  }
}

}  // namespace

RunRecord::RunRecord(const Options& options, bool dynamic, base::FileSystem& files)
    : files_(files), base_(OutputBase(options.output_dir)) {
  manifest_.run_id = options.run_id;
  manifest_.rank = options.rank;
  manifest_.world_size = options.world_size;
  manifest_.pid = static_cast<int>(::getpid());
  manifest_.grad_acc_steps = options.grad_acc_steps;
  manifest_.started = LocalTime(std::time(nullptr));
  manifest_.config_path = options.config_path;
  manifest_.dynamic = dynamic;
}

void RunRecord::FixDirectory(const plan::Plan& plan, std::string* note) {
  if (!directory_.empty() || !plan.rank_writes || plan.layout.format == OutputFormat::kApi) return;
  if (plan.append_output.size() == 2) {
    const std::string &from = plan.append_output[0], &to = plan.append_output[1];
    const auto found = FindRunDirectory(base_, manifest_.rank, from, to, files_);
    *note = found ? "append_output: rows go to " + *found
                  : "append_output: no directory of rank " + std::to_string(manifest_.rank) + " from " + from + " to " +
                        to + " under " + base_ + "; a new one is used";
    if (found) {
      KeepOlderManifest(*found, files_);
      directory_ = *found;
    }
  }
  if (directory_.empty())
    directory_ = base::JoinPath(base_, RunDirectoryName(std::time(nullptr), manifest_.rank, ShortId(manifest_.run_id)));
}

void RunRecord::AddPlan(const plan::Plan& plan) {
  ManifestPlan entry;
  entry.plan_id = plan.layout.plan_id;
  entry.config_sha256 = plan.config_sha256;
  entry.state = "armed";
  manifest_.plans.push_back(std::move(entry));
  if (manifest_.plans.size() > kPlansKept) manifest_.plans.erase(manifest_.plans.begin());
}

void RunRecord::Update(PlanId plan_id, const std::function<void(ManifestPlan&)>& change) {
  for (ManifestPlan& plan : manifest_.plans)
    if (plan.plan_id == plan_id) change(plan);
}

Status RunRecord::Save() const {
  if (directory_.empty()) return Status();
  Status made = base::MakeDirectories(directory_, files_);
  if (!made.ok()) return made;
  return base::ReplaceFile(base::JoinPath(directory_, "manifest.json"), ManifestText(manifest_), files_);
}

Result<std::string> RunRecord::SaveStructure(const std::string& json) const {
  const std::string directory = base::JoinPath(base_, "module_struct/rank" + std::to_string(manifest_.rank));
  Status made = base::MakeDirectories(directory, files_);
  if (!made.ok()) return made;
  const std::string path = base::JoinPath(directory, "module_struct.json");
  const Status written = base::ReplaceFile(path, json, files_);
  if (!written.ok()) return written;
  return path;
}

Status RunRecord::SaveStacks(const std::vector<std::pair<std::string, std::string>>& rows, std::string* note) const {
  if (directory_.empty()) {
    *note = "the format of this run has no files, so the call stacks are not kept";
    return Status();
  }
  Status made = base::MakeDirectories(directory_, files_);
  if (!made.ok()) return made;
  const std::string path = base::JoinPath(directory_, "stack_info.csv");
  if (base::Exists(path, files_)) {
    *note = path + " is there already and stays as it is";
    return Status();
  }
  *note = "the call stacks are in " + path;
  return base::ReplaceFile(path, StackInfoText(rows), files_);
}

}  // namespace stepwatch::output
