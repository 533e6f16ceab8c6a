#include "src/sinks/csv_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/file.h"
#include "src/base/write_whole.h"
#include "src/sinks/file_status.h"

namespace stepwatch::sinks {
namespace {

// More files than this for one bucket indicate another fault.
constexpr int kCsvNamesMax = 100;

// "actv_0-4.csv", "actv_0-4_p2.csv", "actv_0-4_p2_2.csv", ...
std::string CandidateName(const WantedFile& wanted, int attempt) {
  std::string name = wanted.stem;
  if (attempt >= 1) name += "_p" + std::to_string(wanted.plan_id);
  if (attempt >= 2) name += "_" + std::to_string(attempt);
  return name + ".csv";
}

}  // namespace

Status CsvFile::Append(const WantedFile& wanted, std::string_view rows) {
  if (fd_ >= 0) {
    Status usable = wanted == wanted_ ? CheckUnchanged() : Close();
    if (!usable.ok()) return usable;
  }
  if (!(wanted == wanted_)) attempt_ = -1;
  wanted_ = wanted;
  bool appended = false;
  if (fd_ < 0) {
    Status opened;
    try {
      opened = OpenOrCreate(rows, &appended);
    } catch (...) {  // out of memory: a half-opened file must not be written to
      (void)Close();
      throw;
    }
    if (!opened.ok()) return opened;
  }
  return appended ? Status() : AppendRows(rows);
}

Status CsvFile::Close() {
  if (!temporary_.empty()) files_.Unlink(temporary_.c_str());
  temporary_.clear();
  if (fd_ < 0) return Status();
  Status status;
  if (torn_ && TruncateTo(size_) != 0)
    status = FileStatus("cannot truncate", path_, errno, "; it may end with rows that are counted as not written");
  torn_ = false;
  // Never repeated after EINTR: the descriptor is closed even then, and its number may belong to another file by now.
  if (files_.Close(std::exchange(fd_, -1)) != 0 && errno != EINTR && status.ok())
    status = FileStatus("cannot close", path_, errno, "; rows written to it earlier may be missing");
  return status;
}

void CsvFile::CloseAsItIs() {
  if (fd_ >= 0) files_.Close(std::exchange(fd_, -1));
  torn_ = false;
}

Status CsvFile::OpenOrCreate(std::string_view rows, bool* appended) {
  for (int attempt = 0; attempt < kCsvNamesMax; ++attempt) {
    path_ = base::JoinPath(directory_.path, CandidateName(wanted_, attempt));
    const bool is_ours = !wanted_.is_new || attempt == attempt_;
    Result<Found> found = is_ours ? OpenExisting() : Found::kNothing;
    if (found.ok() && found.value() == Found::kNothing) {
      const Result<bool> created = Create(rows);
      if (!created.ok()) return created.status();
      *appended = created.value();
      if (*appended) {
        attempt_ = attempt;
        return Status();
      }
      if (!is_ours) continue;
      found = OpenExisting();  // another process created it in between
    }
    if (!found.ok()) return found.status();
    if (found.value() == Found::kOurs) {
      attempt_ = attempt;
      return Status();
    }
    if (found.value() == Found::kNothing)
      return Status(StatusCode::kUnavailable,
                    "cannot write " + path_ + ": it is a dangling symbolic link; remove it and the rows are written");
  }
  return Status(StatusCode::kExhausted, "cannot write " + path_ + ": this file and " +
                                            std::to_string(kCsvNamesMax - 1) +
                                            " others like it have other columns; move them away");
}

Result<CsvFile::Found> CsvFile::OpenExisting() {
  // Non-blocking, so that a FIFO in place of the file cannot hold the drain.
  fd_ = base::RepeatInterrupted(
      [this] { return files_.Open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0); });
  if (fd_ < 0) {
    if (errno == ENOENT) return Found::kNothing;
    return FileStatus("cannot open", path_, errno);
  }
  Result<Found> found = Inspect();
  if (!found.ok() || found.value() != Found::kOurs) CloseAsItIs();
  return found;
}

Result<CsvFile::Found> CsvFile::Inspect() {
  struct stat about;
  if (files_.Fstat(fd_, &about) != 0) return FileStatus("cannot look at", path_, errno);
  if (!S_ISREG(about.st_mode))
    return Status(StatusCode::kUnavailable,
                  "cannot write " + path_ + ": it is not a regular file; move it away and the rows are written");
  device_ = about.st_dev;
  inode_ = about.st_ino;
  size_ = about.st_size;
  if (size_ == 0) return Found::kOurs;
  const Result<bool> matches = HeaderMatches();
  if (!matches.ok()) return matches.status();
  if (!matches.value()) return Found::kOtherHeader;
  Status cut = CutPartialLine();
  if (!cut.ok()) return cut;
  return Found::kOurs;
}

Result<bool> CsvFile::HeaderMatches() {
  if (size_ < static_cast<off_t>(wanted_.header.size())) return false;
  std::string start(wanted_.header.size(), '\0');
  size_t got = 0;
  while (got < start.size()) {
    const ssize_t read = base::RepeatInterrupted(
        [&] { return files_.Read(fd_, start.data() + got, start.size() - got, static_cast<off_t>(got)); });
    if (read < 0) return FileStatus("cannot read", path_, errno);
    if (read == 0) return false;
    got += static_cast<size_t>(read);
  }
  return start == wanted_.header;
}

// A writer that was killed may have left a partial line at the end.
Status CsvFile::CutPartialLine() {
  std::array<char, 4096> block;
  for (off_t end = size_; end > 0;) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(block.size()));
    // Reads only the last byte first: it is nearly always the end of a line.
    const off_t from = end == size_ ? end - 1 : begin;
    const ssize_t got =
        base::RepeatInterrupted([&] { return files_.Read(fd_, block.data(), static_cast<size_t>(end - from), from); });
    if (got != end - from) return FileStatus("cannot read", path_, got < 0 ? errno : EIO);
    const size_t newline = std::string_view(block.data(), static_cast<size_t>(got)).rfind('\n');
    if (newline != std::string_view::npos) {
      const off_t whole = from + static_cast<off_t>(newline) + 1;
      if (whole != size_ && TruncateTo(whole) != 0) return FileStatus("cannot truncate", path_, errno);
      size_ = whole;
      return Status();
    }
    end = from;
  }
  return Status();
}

// Returns false if another process created the file first.
Result<bool> CsvFile::Create(std::string_view rows) {
  Status opened = OpenTemporary();
  if (!opened.ok()) return opened;
  struct stat about;
  buffer_.assign(wanted_.header).append(rows);
  Result<bool> published = false;
  if (files_.Fstat(fd_, &about) != 0) {
    published = FileStatus("cannot look at", temporary_, errno);
  } else if (const int error = base::WriteWhole(files_, fd_, buffer_)) {
    published = FileStatus("cannot write", path_, error, "; its first rows wait for the next try");
  } else {
    published = Publish();
  }
  if (!published.ok() || !published.value()) {
    CloseAsItIs();
    files_.Unlink(temporary_.c_str());
    temporary_.clear();
    return published;
  }
  device_ = about.st_dev;
  inode_ = about.st_ino;
  size_ = static_cast<off_t>(buffer_.size());
  return true;
}

Status CsvFile::OpenTemporary() {
  temporary_ =
      base::JoinPath(directory_.path, ".stepwatch-" + base::BaseName(path_) + "." + std::to_string(::getpid()));
  // A leftover of an earlier attempt. Removed rather than emptied: it may be a second name of a finished file.
  files_.Unlink(temporary_.c_str());
  const auto open = [this] {
    return base::RepeatInterrupted(
        [this] { return files_.Open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644); });
  };
  fd_ = open();
  if (fd_ < 0 && errno == ENOENT) {
    if (std::exchange(directory_.made, false))
      return Status(StatusCode::kNotFound,
                    "the directory " + directory_.path +
                        " has disappeared with the files in it; it is created again at the next try");
    Status made = base::MakeDirectories(directory_.path, files_);
    if (!made.ok()) return made;
    directory_.made = true;
    fd_ = open();
  }
  if (fd_ >= 0) return Status();
  const int error_number = errno;
  temporary_.clear();
  return FileStatus("cannot create a file in", directory_.path, error_number);
}

// Moves the finished temporary file to its name, unless that name is taken.
Result<bool> CsvFile::Publish() {
  if (files_.RenameNew(temporary_.c_str(), path_.c_str()) == 0) {
    temporary_.clear();
    return true;
  }
  if (errno == EEXIST) return false;
  // Kernels and file systems that cannot rename without replacing (NFS) can link.
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) {
    if (files_.Link(temporary_.c_str(), path_.c_str()) == 0) {
      if (files_.Unlink(temporary_.c_str()) == 0) temporary_.clear();
      return true;
    }
    if (errno == EEXIST) return false;
  }
  return FileStatus("cannot create", path_, errno);
}

// Other processes may remove, rotate, empty or edit an open file.
Status CsvFile::CheckUnchanged() {
  struct stat about;
  if (files_.Stat(path_.c_str(), &about) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return FileStatus("cannot look at", path_, errno);
    (void)Close();
    directory_.made = false;
    return Status(StatusCode::kNotFound, path_ + " has disappeared with the rows in it; the next try starts a new one");
  }
  if (about.st_dev != device_ || about.st_ino != inode_) return Close();
  if (torn_) {
    if (TruncateTo(size_) != 0) return FileStatus("cannot truncate", path_, errno, "; its rows wait for the next try");
    torn_ = false;
    return Status();
  }
  return about.st_size == size_ ? Status() : Close();
}

Status CsvFile::AppendRows(std::string_view rows) {
  std::string_view text = rows;
  if (size_ == 0) text = buffer_.assign(wanted_.header).append(rows);
  const int error = base::WriteWhole(files_, fd_, text);
  if (error == 0) {
    size_ += static_cast<off_t>(text.size());
    return Status();
  }
  torn_ = TruncateTo(size_) != 0;
  return FileStatus("cannot append to", path_, error,
                    torn_ ? "; it could not be truncated to whole lines; the next try starts with that"
                          : "; it was truncated to whole lines, and the rows wait for the next try");
}

int CsvFile::TruncateTo(off_t size) {
  return base::RepeatInterrupted([&] { return files_.Truncate(fd_, size); });
}

}  // namespace stepwatch::sinks
