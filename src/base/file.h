// Operations on whole files and directories, over the calls of a FileSystem, with a Status for each failure.
//
// Thread-safe and stateless. Interrupted calls (EINTR) are repeated.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::base {

// Owns a descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { Reset(); }

  bool valid() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();

 private:
  int fd_ = -1;
};

// "cannot open /x/y: Permission denied" with the code that belongs to `error_number`: kNotFound for ENOENT and ENOTDIR,
// kExhausted for ENOSPC, EDQUOT, EMFILE, ENFILE and ENOMEM, otherwise kUnavailable.
Status ErrnoStatus(std::string_view what, std::string_view path, int error_number);

// open(2) with O_CLOEXEC added.
Result<UniqueFd> Open(const std::string& path, int flags, mode_t mode = 0644, FileSystem& files = FileSystem::Real());

// Reads the rest of the descriptor from offset 0, at most `bytes_max`; a longer file is kExhausted.
Result<std::string> ReadAll(int fd, size_t bytes_max, FileSystem& files = FileSystem::Real());
Result<std::string> ReadFile(const std::string& path, size_t bytes_max, FileSystem& files = FileSystem::Real());

// Writes all of `bytes` at the descriptor's position.
Status WriteAll(int fd, std::string_view bytes, FileSystem& files = FileSystem::Real());

// Replaces `path` whole: a temporary name beside it (prefix ".stepwatch-"), then rename. Readers see the old file or
// the new. After a failure the old one stays and the temporary name is removed.
Status ReplaceFile(const std::string& path, std::string_view bytes, FileSystem& files = FileSystem::Real());

// mkdir -p.
Status MakeDirectories(const std::string& path, FileSystem& files = FileSystem::Real());

// Follow links; false also if the path cannot be looked up.
bool Exists(const std::string& path, FileSystem& files = FileSystem::Real());
bool IsDirectory(const std::string& path, FileSystem& files = FileSystem::Real());

// The names in a directory, sorted.
Result<std::vector<std::string>> ListDirectory(const std::string& path, FileSystem& files = FileSystem::Real());

// rm -rf: as much as can be removed, following no link.
void RemoveTree(const std::string& path, FileSystem& files = FileSystem::Real());

std::string DirectoryOf(const std::string& path);  // "a/b" -> "a", "b" -> "."
std::string BaseName(const std::string& path);     // "a/b" -> "b"
std::string JoinPath(std::string_view directory, std::string_view name);

}  // namespace stepwatch::base
