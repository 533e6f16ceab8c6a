#include "src/output/anomaly_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

#include "src/base/file.h"
#include "src/base/write_whole.h"

namespace stepwatch::output {
namespace {

constexpr std::chrono::seconds kSaveEvery{1};
constexpr std::chrono::seconds kRetryAfter{1};
// A file that is longer contains entries.
constexpr off_t kEmptyBytesMax = 4;

}  // namespace

void AnomalyFile::EnsureExists() {
  if (kept_previous_ || unsaved_) return;
  unsaved_ = true;
}

bool AnomalyFile::Add(const std::string& entry) {
  if (entries_.size() + entry.size() > bytes_max_) return false;
  const char* separator = entries_.empty() ? "" : ",\n";
  if (entries_.capacity() < entries_.size() + 2 + entry.size())
    entries_.reserve(
        std::max(2 * entries_.size(), entries_.size() + 2 + entry.size()));  // may throw, so it precedes any change
  entries_.append(separator).append(entry);
  return unsaved_ = true;
}

std::optional<AnomalyFile::Time> AnomalyFile::due_at() const {
  if (!unsaved_) return std::nullopt;
  return hasty_ || !not_before_ ? Time::min() : *not_before_;
}

Status AnomalyFile::Advance(Time now, bool now_or_never) {
  if (!unsaved_ || (now < *due_at() && !now_or_never)) return Status();
  hasty_ = false;
  not_before_ = now + kRetryAfter;  // also if Save throws
  Status saved = Save();
  unsaved_ = !saved.ok();
  const auto pauses = static_cast<int64_t>(1 + entries_.size() / kBytesPerSecond);
  not_before_ = now + (saved.ok() ? kSaveEvery * pauses : kRetryAfter);
  return saved;
}

Status AnomalyFile::Save() {
  const std::string temporary = directory_ + "/.stepwatch-anomaly.json." + std::to_string(::getpid());
  Status written = WriteTemporary(temporary);
  if (written.ok()) {
    if (!kept_previous_) KeepPrevious();
    if (files_.Rename(temporary.c_str(), path_.c_str()) != 0)
      written = base::ErrnoStatus("cannot replace", path_, errno);
  }
  if (written.ok()) {
    kept_previous_ = true;
  } else {
    files_.Unlink(temporary.c_str());
  }
  return written;
}

Status AnomalyFile::WriteTemporary(const std::string& temporary) {
  int fd = OpenTemporary(temporary);
  if (fd < 0 && errno == ENOENT) {
    Status made = base::MakeDirectories(directory_, files_);
    if (!made.ok()) return made;
    fd = OpenTemporary(temporary);
  }
  if (fd < 0) return base::ErrnoStatus("cannot create a file in", directory_, errno);
  Status status = Write(fd, entries_.empty() ? "{" : "{\n");
  if (status.ok()) status = Write(fd, entries_);
  if (status.ok()) status = Write(fd, entries_.empty() ? "}\n" : "\n}\n");
  if (files_.Close(fd) != 0 && errno != EINTR && status.ok()) status = base::ErrnoStatus("cannot write", path_, errno);
  return status;
}

Status AnomalyFile::Write(int fd, std::string_view text) {
  const int error = base::WriteWhole(files_, fd, text);
  return error == 0 ? Status() : base::ErrnoStatus("cannot write", path_, error);
}

int AnomalyFile::OpenTemporary(const std::string& temporary) {
  files_.Unlink(temporary.c_str());  // a leftover of an earlier process with this pid
  return base::RepeatInterrupted(
      [&] { return files_.Open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); });
}

// After a restart, the alarms of the crashed run are what users look for.
void AnomalyFile::KeepPrevious() {
  struct stat about;
  if (files_.Stat(path_.c_str(), &about) != 0 || about.st_size <= kEmptyBytesMax) return;
  const std::string previous = directory_ + "/stepwatch-anomaly-previous.json";
  files_.Unlink(previous.c_str());
  // Adds a second name, so that the file exists at any moment; without hard links, renames.
  if (files_.Link(path_.c_str(), previous.c_str()) != 0) files_.Rename(path_.c_str(), previous.c_str());
}

}  // namespace stepwatch::output
