#include "src/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "src/base/write_whole.h"

namespace stepwatch::base {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void UniqueFd::Reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Status ErrnoStatus(std::string_view what, std::string_view path, int error_number) {
  StatusCode code = StatusCode::kUnavailable;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: code = StatusCode::kNotFound; break;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM: code = StatusCode::kExhausted; break;
    default: break;
  }
  std::string text(what);
  text += " ";
  text += path;
  text += ": ";
  text += std::generic_category().message(error_number);
  return Status(code, std::move(text));
}

Result<UniqueFd> Open(const std::string& path, int flags, mode_t mode, FileSystem& files) {
  const int fd = RepeatInterrupted([&] { return files.Open(path.c_str(), flags | O_CLOEXEC, mode); });
  if (fd < 0) return ErrnoStatus("cannot open", path, errno);
  return UniqueFd(fd);
}

Result<std::string> ReadAll(int fd, size_t bytes_max, FileSystem& files) {
  std::string bytes;
  char buffer[16384];
  off_t offset = 0;
  for (;;) {
    const ssize_t got = RepeatInterrupted([&] { return files.Read(fd, buffer, sizeof buffer, offset); });
    if (got < 0) return ErrnoStatus("cannot read", "the file", errno);
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(got));
    offset += got;
    if (bytes.size() > bytes_max)
      return Status(StatusCode::kExhausted, "longer than the limit of " + std::to_string(bytes_max) + " bytes");
  }
}

Result<std::string> ReadFile(const std::string& path, size_t bytes_max, FileSystem& files) {
  Result<UniqueFd> fd = Open(path, O_RDONLY, 0, files);
  if (!fd.ok()) return fd.status();
  return ReadAll(fd.value().get(), bytes_max, files);
}

Status WriteAll(int fd, std::string_view bytes, FileSystem& files) {
  const int error = WriteWhole(files, fd, bytes);
  return error == 0 ? Status() : ErrnoStatus("cannot write", "the file", error);
}

Status ReplaceFile(const std::string& path, std::string_view bytes, FileSystem& files) {
  static std::atomic<unsigned> serial{0};  // only makes temporary names distinct
  const std::string temporary =
      JoinPath(DirectoryOf(path), ".stepwatch-" + BaseName(path) + "-" + std::to_string(::getpid()) + "-" +
                                      std::to_string(serial.fetch_add(1)));
  Result<UniqueFd> fd = Open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0644, files);
  if (!fd.ok()) return fd.status();
  Status written = WriteAll(fd.value().get(), bytes, files);
  // Network file systems report a full disk only here. Never repeated after EINTR, because the descriptor is closed
  // even then.
  if (files.Close(fd.value().Release()) != 0 && errno != EINTR && written.ok())
    written = ErrnoStatus("cannot write", temporary, errno);
  if (written.ok() && files.Rename(temporary.c_str(), path.c_str()) != 0)
    written = ErrnoStatus("cannot replace", path, errno);
  if (!written.ok()) files.Unlink(temporary.c_str());
  return written;
}

Status MakeDirectories(const std::string& path, FileSystem& files) {
  struct stat about = {};
  const bool is_there = RepeatInterrupted([&] { return files.Stat(path.c_str(), &about); }) == 0;
  int error_number = !is_there ? errno : S_ISDIR(about.st_mode) ? 0 : ENOTDIR;
  if (error_number == ENOENT) {
    const std::string parent = DirectoryOf(path);
    if (parent != path && !path.empty()) {
      Status made = MakeDirectories(parent, files);
      if (!made.ok()) return made;
    }
    const bool is_made = RepeatInterrupted([&] { return files.MakeDirectory(path.c_str(), 0777); }) == 0;
    error_number = is_made ? 0 : errno;
    if (error_number == EEXIST && IsDirectory(path, files)) error_number = 0;  // another process was faster
  }
  return error_number == 0 ? Status() : ErrnoStatus("cannot create the directory", path, error_number);
}

bool Exists(const std::string& path, FileSystem& files) {
  struct stat about = {};
  return files.Stat(path.c_str(), &about) == 0;
}

bool IsDirectory(const std::string& path, FileSystem& files) {
  struct stat about = {};
  return files.Stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
}

Result<std::vector<std::string>> ListDirectory(const std::string& path, FileSystem& files) {
  std::vector<std::string> names;
  if (files.List(path.c_str(), &names) != 0) return ErrnoStatus("cannot list the directory", path, errno);
  std::sort(names.begin(), names.end());
  return names;
}

void RemoveTree(const std::string& path, FileSystem& files) {
  struct stat about = {};
  if (files.Lstat(path.c_str(), &about) != 0) return;
  if (!S_ISDIR(about.st_mode)) {
    files.Unlink(path.c_str());
    return;
  }
  std::vector<std::string> names;
  files.List(path.c_str(), &names);
  for (const std::string& name : names) RemoveTree(JoinPath(path, name), files);
  files.RemoveDirectory(path.c_str());
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string BaseName(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

}  // namespace stepwatch::base
