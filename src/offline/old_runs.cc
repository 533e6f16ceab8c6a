#include "src/offline/old_runs.h"

#include <fcntl.h>
#include <linux/fs.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <sstream>
#include <utility>

#include "src/base/text.h"
#include "src/json/members.h"
#include "src/offline/manifest_head.h"

namespace stepwatch::offline {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kLeftover = ".stepwatch-pruned-";
constexpr size_t kMountsBytesMax = size_t{16} << 20;
constexpr int kDepthMax = 1;  // a run's directory, and the directories that Stepwatch creates in it
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Inverse of output::RunDirectoryName.
std::optional<int> RankOfName(const std::string& name) {
  static const std::regex form(R"([A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d-rank(\d{1,7})-[0-9a-f]{8})");
  std::smatch parts;
  if (!std::regex_match(name, parts, form)) return std::nullopt;
  return std::stoi(parts[1].str());
}

bool IsOurs(const std::string& name) {
  return name.starts_with("stepwatch") || name.starts_with(".stepwatch");
}

bool IsFileOfRun(const std::string& name) {
  static const std::regex rows(R"([a-z0-9_]+_\d+-\d+(_s\d+)?(_p\d+(_\d+)?)?\.csv)");
  return IsOurs(name) || name == kManifest || name == "stack_info.csv" || name.starts_with("events.out.tfevents.") ||
         std::regex_match(name, rows);
}

std::string Quoted(const std::string& name) {
  return "\"" + base::Printable(name) + "\"";
}

// "/a\040b" -> "/a b": the kernel's escape of blanks in /proc/self/mountinfo.
std::string Unescaped(const std::string& text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      path += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      path += text[i];
    }
  }
  return path;
}

// Only this list distinguishes a directory mounted from the same file system from an ordinary one.
Result<std::vector<std::string>> MountsBelow(const std::string& base, base::FileSystem& files) {
  const Result<std::string> text = base::ReadFile("/proc/self/mountinfo", kMountsBytesMax, files);
  if (!text.ok()) return text.status();
  std::vector<std::string> mounts;
  std::istringstream lines(text.value());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 5; ++i) fields >> field;
    std::string path = Unescaped(field);
    if (path.starts_with(base == "/" ? base : base + "/")) mounts.push_back(std::move(path));
  }
  return mounts;
}

}  // namespace

Result<RunStore> RunStore::Open(const std::string& base, base::FileSystem& files) {
  std::string resolved;
  if (files.RealPath(base.c_str(), &resolved) != 0) return base::ErrnoStatus("cannot find", base, errno);
  Result<base::UniqueFd> fd = base::Open(resolved, kDirectoryFlags, 0, files);
  if (!fd.ok()) return fd.status();
  struct stat about = {};
  if (files.Fstat(fd.value().get(), &about) != 0) return base::ErrnoStatus("cannot look at", base, errno);
  Result<std::vector<std::string>> mounts = MountsBelow(resolved, files);
  if (!mounts.ok()) return mounts.status();
  RunStore store(std::move(resolved), std::move(fd).value(), files);
  store.device_ = about.st_dev;
  store.mounts_ = std::move(mounts).value();
  return store;
}

Result<base::UniqueFd> RunStore::OpenDirectory(int parent, const std::string& name) const {
  const int fd = base::RepeatInterrupted([&] { return files_->OpenAt(parent, name.c_str(), kDirectoryFlags, 0); });
  if (fd < 0) return base::ErrnoStatus("cannot open", base::JoinPath(base_, name), errno);
  return base::UniqueFd(fd);
}

bool RunStore::HasMountBelow(const std::string& name) const {
  const std::string path = base::JoinPath(base_, name);
  return std::any_of(mounts_.begin(), mounts_.end(),
                     [&](const std::string& mount) { return mount == path || mount.starts_with(path + "/"); });
}

void RunStore::Inspect(int directory, int depth, Contents* contents) const {
  std::vector<std::string> names;
  if (files_->ListAt(directory, &names) != 0) {
    contents->strange = "cannot be listed";
    return;
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    struct stat about = {};
    if (files_->StatAt(directory, name.c_str(), &about) != 0) {
      if (errno == ENOENT) continue;  // a temporary file of a running job
      contents->strange = "cannot be read at " + Quoted(name);
      return;
    }
    const bool is_directory = S_ISDIR(about.st_mode);
    const bool is_known = depth > 0 ? S_ISREG(about.st_mode)
                                    : (S_ISREG(about.st_mode) && IsFileOfRun(name)) || (is_directory && IsOurs(name));
    if (about.st_dev != device_)
      contents->strange = "another file system is mounted at " + Quoted(name);
    else if (!is_known)
      contents->strange =
          (S_ISLNK(about.st_mode) ? "holds the symbolic link " : "holds ") + Quoted(name) + ", which no run writes";
    if (!contents->strange.empty()) return;
    contents->changed = std::max<std::time_t>(contents->changed, about.st_mtim.tv_sec);
    if (!is_directory) {
      contents->bytes += static_cast<uint64_t>(about.st_size);
      continue;
    }
    const Result<base::UniqueFd> below = OpenDirectory(directory, name);
    if (!below.ok()) {
      contents->strange = "cannot be read at " + Quoted(name);
      return;
    }
    Inspect(below.value().get(), depth + 1, contents);
    if (!contents->strange.empty()) return;
  }
}

RunStore::Contents RunStore::Inspect(const std::string& name) const {
  Contents contents;
  struct stat about = {};
  const Result<base::UniqueFd> directory = OpenDirectory(fd_.get(), name);
  if (!directory.ok() || files_->Fstat(directory.value().get(), &about) != 0) {
    contents.strange = "cannot be read";
  } else if (about.st_dev != device_ || HasMountBelow(name)) {
    contents.strange = "another file system is mounted there, or in it";
  } else {
    contents.changed = about.st_mtim.tv_sec;
    Inspect(directory.value().get(), 0, &contents);
  }
  return contents;
}

namespace {

struct ManifestFacts {
  std::string run_id;
  base::ProcessIdentity process;
};

// nullopt: the directory is not one of Stepwatch.
std::optional<ManifestFacts> ReadFacts(int directory, base::FileSystem& files) {
  const int fd = base::RepeatInterrupted(
      [&] { return files.OpenAt(directory, kManifest, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0); });
  if (fd < 0) return std::nullopt;
  const base::UniqueFd manifest(fd);
  struct stat about = {};
  if (files.Fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  const Json json = ReadManifestHead(fd, files);
  if (json::RawText(json, "stepwatch").empty() || json::RawText(json, "run_id").empty()) return std::nullopt;
  return ManifestFacts{
      json::RawText(json, "run_id"),
      {json::RawText(json, "host"), json::RawText(json, "boot_id"), json::RawText(json, "pid_namespace"),
       static_cast<int>(json::Count(json, "pid")), json::Count(json, "pid_started")}};
}

}  // namespace

Result<StoredRuns> RunStore::List() {
  std::vector<std::string> names;
  if (files_->ListAt(fd_.get(), &names) != 0) return base::ErrnoStatus("cannot list the directory", base_, errno);
  std::sort(names.begin(), names.end());
  StoredRuns found;
  std::map<std::string, StoredRun> runs;
  const std::string leftover = kLeftover;
  for (const std::string& name : names) {
    const bool is_leftover = name.starts_with(leftover) && RankOfName(name.substr(leftover.size()));
    const std::optional<int> rank = RankOfName(name);
    if (!rank && !is_leftover) continue;
    struct stat about = {};
    if (files_->StatAt(fd_.get(), name.c_str(), &about) != 0 || !S_ISDIR(about.st_mode)) {
      found.strange.push_back({name, S_ISLNK(about.st_mode) ? "is a symbolic link" : "is not a directory"});
      continue;
    }
    const Contents contents = Inspect(name);
    if (is_leftover) {
      if (contents.strange.empty())
        found.leftovers.push_back(name);
      else
        found.strange.push_back({name, contents.strange});
      continue;
    }
    const Result<base::UniqueFd> directory = OpenDirectory(fd_.get(), name);
    const auto facts = directory.ok() ? ReadFacts(directory.value().get(), *files_) : std::nullopt;
    if (!facts) {
      found.strange.push_back({name, "has no manifest.json of Stepwatch"});
      continue;
    }
    StoredRun& run = runs[facts->run_id];
    run.run_id = facts->run_id;
    run.directories.push_back({name, *rank, facts->process, contents.changed});
    run.bytes += contents.bytes;
    run.changed = std::max(run.changed, contents.changed);
    if (!contents.strange.empty() && run.left_alone.empty()) run.left_alone = name + " " + contents.strange;
  }
  for (auto& [id, run] : runs) found.runs.push_back(std::move(run));
  std::stable_sort(found.runs.begin(), found.runs.end(),
                   [](const StoredRun& a, const StoredRun& b) { return a.changed < b.changed; });
  return found;
}

Status RunStore::Remove(const StoredRun& run) {
  for (const StoredRun::Directory& directory : run.directories) {
    const Contents contents = Inspect(directory.name);
    if (!contents.strange.empty())
      return Status(StatusCode::kUnavailable, directory.name + " " + contents.strange + "; the run is left alone");
    if (contents.changed != directory.changed)
      return Status(StatusCode::kUnavailable,
                    directory.name + " has changed since it was listed; the run is left alone");
  }
  std::vector<std::string> leftovers;
  for (const StoredRun::Directory& directory : run.directories) {
    const std::string leftover = kLeftover + directory.name;
    int renamed = files_->RenameAt(fd_.get(), directory.name.c_str(), fd_.get(), leftover.c_str(), RENAME_NOREPLACE);
    if (renamed != 0 && (errno == EINVAL || errno == ENOSYS))  // file systems without support for flags
      renamed = files_->RenameAt(fd_.get(), directory.name.c_str(), fd_.get(), leftover.c_str(), 0);
    if (renamed != 0 && errno != ENOENT)
      return base::ErrnoStatus("cannot remove", base::JoinPath(base_, directory.name), errno);
    if (renamed == 0) leftovers.push_back(leftover);
  }
  Status first_failure;
  for (const std::string& leftover : leftovers)
    if (Status removed = RemoveLeftover(leftover); first_failure.ok()) first_failure = std::move(removed);
  return first_failure;
}

Status RunStore::RemoveLeftover(const std::string& name) {
  const Contents contents = Inspect(name);
  if (!contents.strange.empty()) return Status(StatusCode::kUnavailable, name + " " + contents.strange);
  const Result<base::UniqueFd> directory = OpenDirectory(fd_.get(), name);
  if (!directory.ok()) return directory.status();
  Status emptied = Empty(directory.value().get(), 0);
  if (!emptied.ok()) return emptied;
  if (files_->UnlinkAt(fd_.get(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    return base::ErrnoStatus("cannot remove", base::JoinPath(base_, name), errno);
  return Status();
}

Status RunStore::Empty(int directory, int depth) const {
  std::vector<std::string> names;
  if (files_->ListAt(directory, &names) != 0) return base::ErrnoStatus("cannot list", "a directory", errno);
  for (const std::string& name : names) {
    if (files_->UnlinkAt(directory, name.c_str(), 0) == 0 || errno == ENOENT) continue;
    const int error_number = errno;
    // EISDIR on Linux, EPERM by POSIX: a directory.
    if ((error_number != EISDIR && error_number != EPERM) || depth >= kDepthMax)
      return base::ErrnoStatus("cannot remove", name, error_number);
    const Result<base::UniqueFd> below = OpenDirectory(directory, name);
    if (!below.ok()) return base::ErrnoStatus("cannot remove", name, error_number);
    struct stat about = {};
    if (files_->Fstat(below.value().get(), &about) != 0 || about.st_dev != device_)
      return Status(StatusCode::kUnavailable, "another file system is mounted at " + Quoted(name));
    Status emptied = Empty(below.value().get(), depth + 1);
    if (!emptied.ok()) return emptied;
    if (files_->UnlinkAt(directory, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
      return base::ErrnoStatus("cannot remove", name, errno);
  }
  return Status();
}

std::string WhyLive(const StoredRun& run, const std::set<std::string>& answering, std::time_t now,
                    base::FileSystem& files) {
  if (answering.count(run.run_id) != 0) return "its control socket responds";
  for (const StoredRun::Directory& directory : run.directories) {
    const std::optional<bool> runs = base::IsRunning(directory.process, files);
    if (runs == true) return "its process " + std::to_string(directory.process.pid) + " runs";
    if (!runs && now - directory.changed < kSilentUntilDead)
      return "it changed within the last day, and this machine cannot see whether it still runs" +
             (directory.process.host.empty() ? "" : " (host " + base::Printable(directory.process.host) + ")");
  }
  return "";
}

std::vector<RunVerdict> Judge(const std::vector<StoredRun>& runs, const std::vector<std::string>& why_live,
                              const RetentionRule& rule) {
  using Kind = RunVerdict::Kind;
  std::vector<RunVerdict> verdicts;
  uint64_t left = 0;
  for (const StoredRun& run : runs) left += run.bytes;
  for (size_t i = 0; i < runs.size(); ++i) {
    RunVerdict verdict;
    const std::time_t age = rule.now - runs[i].changed;
    if (!why_live[i].empty())
      verdict = {Kind::kLive, why_live[i]};
    else if (!runs[i].left_alone.empty())
      verdict = {Kind::kLeftAlone, runs[i].left_alone};
    else if (rule.older_than >= 0 && age > rule.older_than)
      verdict = {Kind::kRemoved, "older than the limit"};
    else if (rule.keep_bytes >= 0 && left > static_cast<uint64_t>(rule.keep_bytes))
      verdict = {Kind::kRemoved, "the oldest above the size limit"};
    if (verdict.kind == Kind::kRemoved) left -= runs[i].bytes;
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace stepwatch::offline
