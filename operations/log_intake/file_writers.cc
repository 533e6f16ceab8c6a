#include "operations/log_intake/file_writers.h"

#include <sys/stat.h>

#include <algorithm>

#include "src/base/file.h"
#include "src/base/parse_number.h"
#include "src/base/process_identity.h"

namespace stepwatch::operations {
namespace {

// Without a writer so far, the looks become rarer up to this.
constexpr double kGapSecondsMax = 60;
constexpr double kAgainSeconds = 3;  // between two looks at the writers of a silent run

// Calls `found` for each file that the process has open for writing, until that returns true.
template <class Found>
size_t ForWrittenFiles(int pid, base::FileSystem& files, const Found& found) {
  const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
  const Result<std::vector<std::string>> names = base::ListDirectory(directory, files);
  if (!names.ok()) return 0;
  for (const std::string& name : names.value()) {
    const std::string path = base::JoinPath(directory, name);
    struct stat about {};
    // The mode of the link is that of the descriptor.
    if (files.Lstat(path.c_str(), &about) != 0 || (about.st_mode & S_IWUSR) == 0) continue;
    if (files.Stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) continue;
    if (found(FileKey{about.st_dev, about.st_ino})) break;
  }
  return names.value().size();
}

uint64_t StartOf(int pid, base::FileSystem& files) {
  const std::optional<base::ProcessStat> stat = base::StatOf(pid, files);
  return stat ? stat->started : 0;
}

}  // namespace

std::optional<std::map<FileKey, std::vector<FileWriter>>> FindWriters(const std::set<FileKey>& files_of_interest,
                                                                      base::FileSystem& files) {
  std::map<FileKey, std::vector<FileWriter>> writers;
  const Result<std::vector<std::string>> names = base::ListDirectory("/proc", files);
  if (!names.ok()) return std::nullopt;
  size_t descriptors = 0;
  for (const std::string& name : names.value()) {
    const std::optional<int> pid = base::ParseNumber<int>(name);
    if (!pid) continue;
    descriptors += ForWrittenFiles(*pid, files, [&](FileKey key) {
      if (!files_of_interest.contains(key)) return false;
      std::vector<FileWriter>& known = writers[key];
      const FileWriter writer{*pid, StartOf(*pid, files)};
      if (known.empty() || !(known.back() == writer)) known.push_back(writer);
      return false;
    });
    if (descriptors > kDescriptorsMax) return std::nullopt;
  }
  return writers;
}

void RunWriters::Grew(const std::string& run, const std::string& path, double now) {
  auto found = runs_.find(run);
  if (found == runs_.end()) {
    if (runs_.size() >= kRunsMax) return;
    found = runs_.try_emplace(run).first;
    found->second.next_t = now;
  }
  found->second.grew_t = now;
  if (found->second.paths.size() < kPathsMax) found->second.paths.insert(path);
}

std::set<FileKey> RunWriters::FilesOf(const Run& run) const {
  std::set<FileKey> keys;
  for (const std::string& path : run.paths) {
    struct stat about {};
    if (files_.Stat(path.c_str(), &about) == 0) keys.insert({about.st_dev, about.st_ino});
  }
  return keys;
}

bool RunWriters::HasKnownWriter(const Run& run, const std::set<FileKey>& keys) const {
  return std::any_of(run.writers.begin(), run.writers.end(), [&](const FileWriter& writer) {
    if (StartOf(writer.pid, files_) != writer.started) return false;
    bool writes = false;
    (void)ForWrittenFiles(writer.pid, files_, [&](FileKey key) { return writes = keys.contains(key); });
    return writes;
  });
}

std::vector<std::string> RunWriters::Look(double now) {
  std::map<std::string, std::set<FileKey>> to_search;
  std::set<FileKey> all;
  for (auto& [name, run] : runs_) {
    // A clock that was set back must not stop the looks.
    if (now < run.next_t && run.next_t - now < 2 * kGapSecondsMax) continue;
    const bool is_silent = now - run.grew_t >= kSilentSeconds;
    if (!run.writers.empty() && !is_silent) continue;
    std::set<FileKey> keys = FilesOf(run);
    if (run.writers.empty()) run.gap = std::min(kGapSecondsMax, 2 * run.gap);
    run.next_t = now + (run.writers.empty() ? run.gap : kAgainSeconds);
    if (!run.writers.empty() && HasKnownWriter(run, keys)) continue;
    all.insert(keys.begin(), keys.end());
    to_search[name] = std::move(keys);
  }
  if (to_search.empty()) return {};
  const auto found = FindWriters(all, files_);
  if (!found) return {};
  std::vector<std::string> over;
  for (const auto& [name, keys] : to_search) {
    Run& run = runs_[name];
    const bool had_writers = !run.writers.empty();
    run.writers.clear();
    for (const FileKey& key : keys)
      if (const auto writers = found->find(key); writers != found->end())
        for (const FileWriter& each : writers->second)
          if (std::find(run.writers.begin(), run.writers.end(), each) == run.writers.end()) run.writers.push_back(each);
    if (!had_writers || !run.writers.empty()) continue;
    over.push_back(name);
    runs_.erase(name);  // it begins again with its next line
  }
  return over;
}

}  // namespace stepwatch::operations
