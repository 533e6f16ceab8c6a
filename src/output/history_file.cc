#include "src/output/history_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/base/file.h"
#include "src/base/sha256.h"
#include "src/config/parse_config.h"

namespace stepwatch::output {
namespace {

constexpr char kHistory[] = "stepwatch_history.jsonl";
constexpr char kConfigs[] = "stepwatch_configs";
constexpr size_t kHistoryBytesMax = size_t{1} << 30;

std::string KeptPath(const std::string& directory, const std::string& sha256) {
  return base::JoinPath(base::JoinPath(directory, kConfigs), sha256 + ".json");
}

Status SyncFile(const std::string& path, base::FileSystem& files) {
  Result<base::UniqueFd> fd = base::Open(path, O_RDONLY, 0, files);
  if (!fd.ok()) return fd.status();
  const bool is_synced = base::RepeatInterrupted([&] { return files.Sync(fd.value().get()); }) == 0 || errno == EINVAL;
  return is_synced ? Status() : base::ErrnoStatus("cannot write", path, errno);
}

Status KeepConfig(const std::string& directory, const HistoryEntry& entry, base::FileSystem& files) {
  const std::string path = KeptPath(directory, entry.line.sha256);
  if (!entry.config_text || base::Exists(path, files)) return Status();
  if (Status made = base::MakeDirectories(base::DirectoryOf(path), files); !made.ok()) return made;
  if (Status written = base::ReplaceFile(path, *entry.config_text, files); !written.ok()) return written;
  return SyncFile(path, files);
}

// A line that a killed process left half-written gets its end.
Result<std::string> Separator(int fd, off_t size, const std::string& path, base::FileSystem& files) {
  char last = '\n';
  if (size > 0 && base::RepeatInterrupted([&] { return files.Read(fd, &last, 1, size - 1); }) != 1)
    return base::ErrnoStatus("cannot read", path, errno);
  return std::string(last == '\n' ? "" : "\n");
}

Status Append(int fd, const std::string& text, const std::string& path, base::FileSystem& files) {
  struct stat status = {};
  if (files.Fstat(fd, &status) != 0) return base::ErrnoStatus("cannot read", path, errno);
  const Result<std::string> separator = Separator(fd, status.st_size, path, files);
  if (!separator.ok()) return separator.status();
  Status written = base::WriteAll(fd, separator.value() + text, files);
  if (written.ok() && base::RepeatInterrupted([&] { return files.Sync(fd); }) != 0 && errno != EINVAL)
    written = base::ErrnoStatus("cannot write", path, errno);
  if (!written.ok()) (void)base::RepeatInterrupted([&] { return files.Truncate(fd, status.st_size); });
  return written;
}

Result<FoundHistory> ReadHistoryFile(const std::string& path) {
  const Result<std::string> text = base::ReadFile(path, kHistoryBytesMax);
  if (!text.ok()) return text.status();
  Result<History> history = ReadHistory(text.value());
  if (!history.ok()) return Status(history.status().code(), path + ": " + history.status().message());
  FoundHistory found{base::DirectoryOf(path), std::move(history).value()};
  for (std::string& note : found.history.notes) note = path + ": " + note;
  return found;
}

}  // namespace

Status AppendHistory(const std::string& directory, const std::vector<HistoryEntry>& entries, base::FileSystem& files) {
  std::string text;
  if (Status made = base::MakeDirectories(directory, files); !made.ok()) return made;
  for (const HistoryEntry& entry : entries) {
    if (Status kept = KeepConfig(directory, entry, files); !kept.ok()) return kept;
    text += HistoryText(entry.line);
  }
  const std::string path = base::JoinPath(directory, kHistory);
  Result<base::UniqueFd> fd = base::Open(path, O_RDWR | O_APPEND | O_CREAT, 0644, files);
  return fd.ok() ? Append(fd.value().get(), text, path, files) : fd.status();
}

Result<std::vector<FoundHistory>> FindHistories(const std::string& path) {
  std::vector<FoundHistory> all;
  const std::string own = base::IsDirectory(path) ? base::JoinPath(path, kHistory) : path;
  if (base::Exists(own)) {
    Result<FoundHistory> found = ReadHistoryFile(own);
    if (!found.ok()) return found.status();
    all.push_back(std::move(found).value());
    return all;
  }
  const Status none(StatusCode::kNotFound, "no " + std::string(kHistory) + " at " + path +
                                               ", nor in a directory there; accepted: a history, the directory of a "
                                               "run, or the directory with those of several");
  const Result<std::vector<std::string>> names = base::ListDirectory(path);
  if (!names.ok()) return base::Exists(path) ? names.status() : none;
  for (const std::string& name : names.value()) {
    const std::string file = base::JoinPath(base::JoinPath(path, name), kHistory);
    if (!base::Exists(file)) continue;
    Result<FoundHistory> found = ReadHistoryFile(file);
    if (!found.ok()) found = FoundHistory{base::DirectoryOf(file), {{}, {found.status().message()}}};
    all.push_back(std::move(found).value());
  }
  if (all.empty()) return none;
  const auto first_time = [](const FoundHistory& run) {
    return run.history.lines.empty() ? std::string() : run.history.lines.front().time;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const FoundHistory& a, const FoundHistory& b) { return first_time(a) < first_time(b); });
  return all;
}

Result<std::string> KeptConfig(const std::string& directory, const std::string& sha256) {
  if (!IsSha256(sha256)) return Status(StatusCode::kNotFound, "the history does not say which config it was");
  const std::string path = KeptPath(directory, sha256);
  Result<std::string> text = base::ReadFile(path, config::kConfigBytesMax);
  if (text.ok() && base::Sha256Hex(text.value()) != sha256)
    return Status(StatusCode::kInvalid, path + " was changed: its bytes are not those that its name says");
  return text;
}

}  // namespace stepwatch::output
