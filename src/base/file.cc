#include "src/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

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

Result<UniqueFd> Open(const std::string& path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return ErrnoStatus("cannot open", path, errno);
  return UniqueFd(fd);
}

Result<std::string> ReadAll(int fd, size_t bytes_max) {
  std::string bytes;
  char buffer[16384];
  off_t offset = 0;
  for (;;) {
    const ssize_t got = ::pread(fd, buffer, sizeof buffer, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus("cannot read", "the file", errno);
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(got));
    offset += got;
    if (bytes.size() > bytes_max)
      return Status(StatusCode::kExhausted, "longer than the limit of " + std::to_string(bytes_max) + " bytes");
  }
}

Result<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  Result<UniqueFd> fd = Open(path, O_RDONLY);
  if (!fd.ok()) return fd.status();
  return ReadAll(fd.value().get(), bytes_max);
}

Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus("cannot write", "the file", errno);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return Status();
}

Status ReplaceFile(const std::string& path, std::string_view bytes) {
  static std::atomic<unsigned> serial{0};  // only makes temporary names distinct
  const std::string temporary =
      JoinPath(DirectoryOf(path), ".stepwatch-" + BaseName(path) + "-" + std::to_string(::getpid()) + "-" +
                                      std::to_string(serial.fetch_add(1)));
  Result<UniqueFd> fd = Open(temporary, O_WRONLY | O_CREAT | O_EXCL);
  if (!fd.ok()) return fd.status();
  Status written = WriteAll(fd.value().get(), bytes);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0)
    written = ErrnoStatus("cannot replace", path, errno);
  if (!written.ok()) ::unlink(temporary.c_str());
  return written;
}

Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus("cannot create the directory", path, error.value());
  return Status();
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
