#include "src/base/found_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace stepwatch::base {
namespace {

constexpr size_t kFoundBlockBytes = size_t{64} << 10;

const char* KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFLNK: return "is a symbolic link";
    case S_IFDIR: return "is a directory";
    case S_IFIFO: return "is a FIFO";
    case S_IFSOCK: return "is a socket";
    case S_IFCHR: return "is a character device";
    case S_IFBLK: return "is a block device";
    default: return "is of an unknown type";
  }
}

Status CheckFound(const std::string& path, const struct stat& about, std::optional<uid_t> owner) {
  if (!S_ISREG(about.st_mode))
    return Status(StatusCode::kInvalid, path + " " + KindOf(about.st_mode) + "; only a regular file is accepted");
  if (owner && about.st_uid != *owner)
    return Status(StatusCode::kInvalid, path + " belongs to uid " + std::to_string(about.st_uid) +
                                            "; only a file of uid " + std::to_string(*owner) + " is accepted");
  return Status();
}

}  // namespace

// Checked before opening as well: opening a FIFO or a device has effects at its other end.
Result<UniqueFd> OpenFound(const std::string& path, int flags, std::optional<uid_t> owner, FileSystem& files,
                           mode_t mode) {
  struct stat about = {};
  const int looked =
      RepeatInterrupted([&] { return owner ? files.Lstat(path.c_str(), &about) : files.Stat(path.c_str(), &about); });
  const bool is_to_be_made = looked != 0 && errno == ENOENT && (flags & O_CREAT) != 0;
  if (looked != 0 && !is_to_be_made) return ErrnoStatus("cannot open", path, errno);
  if (looked == 0)
    if (Status checked = CheckFound(path, about, owner); !checked.ok()) return checked;
  Result<UniqueFd> fd = Open(path, flags | O_NONBLOCK | O_NOCTTY | (owner ? O_NOFOLLOW : 0), mode, files);
  if (!fd.ok()) return fd;
  if (RepeatInterrupted([&] { return files.Fstat(fd.value().get(), &about); }) != 0)
    return ErrnoStatus("cannot look at", path, errno);
  if (Status checked = CheckFound(path, about, owner); !checked.ok()) return checked;
  return fd;
}

Result<std::string> ReadFound(const std::string& path, size_t bytes_max, std::optional<uid_t> owner,
                              FileSystem& files) {
  const Result<UniqueFd> fd = OpenFound(path, O_RDONLY, owner, files);
  if (!fd.ok()) return fd.status();
  struct stat about = {};
  if (RepeatInterrupted([&] { return files.Fstat(fd.value().get(), &about); }) != 0)
    return ErrnoStatus("cannot look at", path, errno);
  if (about.st_size > 0 && static_cast<uint64_t>(about.st_size) > bytes_max)
    return Status(StatusCode::kExhausted, path + " has " + std::to_string(about.st_size) + " bytes; at most " +
                                              std::to_string(bytes_max) + " are accepted");
  return ReadAll(fd.value().get(), bytes_max, files);
}

Result<bool> FoundLines::Fill() {
  block_.resize(kFoundBlockBytes);
  at_ = 0;
  const ssize_t got = RepeatInterrupted([&] { return files_.Read(fd_, block_.data(), block_.size(), offset_); });
  const int error_number = errno;
  block_.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return ErrnoStatus("cannot read", "the file", error_number);
  offset_ += got;
  return got > 0;
}

Result<std::optional<FoundLines::Line>> FoundLines::Next() {
  line_.clear();
  bool begun = false, is_too_long = false;
  for (;;) {
    if (at_ == block_.size()) {
      const Result<bool> filled = Fill();
      if (!filled.ok()) return filled.status();
      if (!filled.value()) break;
    }
    begun = true;
    const size_t newline = block_.find('\n', at_);
    const size_t end = std::min(newline, block_.size());
    is_too_long = is_too_long || line_.size() + (end - at_) > line_bytes_max_;
    if (is_too_long)
      line_.clear();
    else
      line_.append(block_, at_, end - at_);
    at_ = newline == std::string::npos ? end : end + 1;
    if (newline != std::string::npos) return std::optional(Line{line_, is_too_long, false});
  }
  return begun ? std::optional(Line{line_, is_too_long, true}) : std::nullopt;
}

FoundStream::int_type FoundStream::underflow() {
  if (!status_.ok()) return traits_type::eof();
  block_.resize(kFoundBlockBytes);
  const ssize_t got = RepeatInterrupted([&] { return files_.Read(fd_, block_.data(), block_.size(), offset_); });
  if (got < 0) status_ = ErrnoStatus("cannot read", "the file", errno);
  if (got <= 0) return traits_type::eof();
  offset_ += got;
  setg(block_.data(), block_.data(), block_.data() + got);
  return traits_type::to_int_type(*gptr());
}

}  // namespace stepwatch::base
