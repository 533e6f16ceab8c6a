#include "src/sinks/event_file.h"

#include <fcntl.h>

#include <cctype>
#include <cerrno>
#include <utility>

#include "src/base/file.h"
#include "src/base/write_whole.h"
#include "src/sinks/file_status.h"

namespace stepwatch::sinks {
namespace {

// More taken names than this indicate another fault.
constexpr int kEventFileNamesMax = 1000;

}  // namespace

std::string EventFileName(int64_t unix_seconds, const std::string& host, int process_id) {
  std::string name = "events.out.tfevents." + std::to_string(unix_seconds) + ".";
  for (const char c : host) name += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  return name + "." + std::to_string(process_id);
}

Status EventFile::Append(std::span<const SummaryEvent> events) {
  if (events.empty()) return Status();
  if (fd_ >= 0) {
    Status unchanged = CheckUnchanged();
    if (!unchanged.ok()) return unchanged;
  }
  if (fd_ < 0) {
    Status created = Create();
    if (!created.ok()) return created;
  }
  std::string bytes;
  if (size_ == 0) AppendVersionRecord(events.front().wall_time, &bytes);
  for (const SummaryEvent& event : events) AppendSummaryRecord(event, &bytes);
  const int error = base::WriteWhole(files_, fd_, bytes);
  if (error == 0) {
    size_ += static_cast<off_t>(bytes.size());
    return Status();
  }
  torn_ = TruncateTo(size_) != 0;
  return FileStatus("cannot append to", path_, error,
                    torn_ ? "; it could not be truncated to whole records yet" : "; it was truncated to whole records");
}

Status EventFile::Close() {
  if (fd_ < 0) return Status();
  Status status;
  if (torn_ && TruncateTo(size_) != 0)
    status = FileStatus("cannot truncate", path_, errno, "; it may end with events that are counted as not written");
  torn_ = false;
  const bool empty = size_ == 0;
  // Never repeated after EINTR: the descriptor is closed even then.
  if (files_.Close(std::exchange(fd_, -1)) != 0 && errno != EINTR && status.ok())
    status = FileStatus("cannot close", path_, errno, "; events written to it earlier may be missing");
  if (empty) files_.Unlink(path_.c_str());
  return status;
}

Status EventFile::EndFile() {
  if (path_.empty()) return Status();
  Status closed = Close();
  path_.clear();
  ++serial_;
  return closed;
}

Status EventFile::Create() {
  bool made = false;
  for (int attempt = 0; attempt < kEventFileNamesMax; ++attempt) {
    path_ = base::JoinPath(directory_, serial_ == 0 ? name_ : name_ + "." + std::to_string(serial_));
    fd_ = base::RepeatInterrupted(
        [this] { return files_.Open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644); });
    if (fd_ >= 0) break;
    if (errno == ENOENT && !std::exchange(made, true)) {
      Status directory = base::MakeDirectories(directory_, files_);
      if (!directory.ok()) return directory;
    } else if (errno == EEXIST) {
      ++serial_;
    } else {
      return FileStatus("cannot create", path_, errno);
    }
  }
  if (fd_ < 0)
    return Status(StatusCode::kExhausted, "cannot create " + path_ + ": it and " +
                                              std::to_string(kEventFileNamesMax - 1) +
                                              " names like it are taken; move these files away");
  struct stat about;
  if (files_.Fstat(fd_, &about) != 0) {
    Status status = FileStatus("cannot look at", path_, errno);
    files_.Close(std::exchange(fd_, -1));
    files_.Unlink(path_.c_str());
    return status;
  }
  device_ = about.st_dev;
  inode_ = about.st_ino;
  size_ = 0;
  return Status();
}

// Other processes may remove, move or edit an open file.
Status EventFile::CheckUnchanged() {
  struct stat about;
  const bool gone = files_.Stat(path_.c_str(), &about) != 0;
  if (gone && errno != ENOENT && errno != ENOTDIR) return FileStatus("cannot look at", path_, errno);
  if (gone || about.st_dev != device_ || about.st_ino != inode_) {
    torn_ = false;
    files_.Close(std::exchange(fd_, -1));
    ++serial_;
    return Status(StatusCode::kNotFound,
                  path_ + " has disappeared with the events in it; the next append starts a new file");
  }
  if (torn_ || about.st_size != size_) {
    if (about.st_size < size_) {
      // A file that was cut by another process may end inside a record; readers would find no record after it.
      torn_ = false;
      files_.Close(std::exchange(fd_, -1));
      ++serial_;
      return Status(StatusCode::kNotFound,
                    path_ + " was truncated by another process; the next append starts a new file");
    }
    if (TruncateTo(size_) != 0) return FileStatus("cannot truncate", path_, errno);
    torn_ = false;
  }
  return Status();
}

int EventFile::TruncateTo(off_t size) {
  return base::RepeatInterrupted([&] { return files_.Truncate(fd_, size); });
}

}  // namespace stepwatch::sinks
