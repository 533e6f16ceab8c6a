#include "controller/writeback/temporary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace stepwatch::writeback {
namespace {

constexpr int kNamesMax = 100;  // leftovers of crashed processes with our process id

std::string BesideName(const std::string& target, const std::string& suffix) {
  return base::JoinPath(base::DirectoryOf(target), "." + base::BaseName(target) + ".stepwatch-" + suffix);
}

int OpenFreshName(const FileCalls& calls, const std::string& target, std::string* path, base::UniqueFd* fd) {
  int error = EEXIST;
  for (int n = 0; n < kNamesMax && error == EEXIST; ++n) {
    *path = BesideName(target, std::to_string(::getpid()) + "-" + std::to_string(n));
    error = calls.Open(*path, O_RDWR | O_CREAT | O_EXCL, fd, S_IRUSR | S_IWUSR);
  }
  return error;
}

// The owner first: to change it clears mode bits.
int Resemble(const FileCalls& calls, int like, int fd) {
  struct stat wanted = {}, found = {};
  if (const int error = calls.Status(like, &wanted)) return error;
  if (const int error = calls.Status(fd, &found)) return error;
  if (wanted.st_uid != found.st_uid || wanted.st_gid != found.st_gid) {
    if (const int error = calls.ChangeOwner(fd, wanted.st_uid, wanted.st_gid)) return error;
  }
  calls.CopyAttributes(like, fd);
  return calls.ChangeMode(fd, wanted.st_mode & 07777);
}

int Fill(const FileCalls& calls, int like, std::string_view bytes, int fd, Version* version) {
  if (const int error = Resemble(calls, like, fd)) return error;
  if (const int error = calls.Write(fd, bytes, 0)) return error;
  if (const int error = calls.Sync(fd)) return error;
  struct stat status = {};
  if (const int error = calls.Status(fd, &status)) return error;
  *version = {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino), std::string(bytes)};
  return 0;
}

}  // namespace

TemporaryFile WriteBeside(const FileCalls& calls, const std::string& target, int like, std::string_view bytes) {
  TemporaryFile file;
  base::UniqueFd fd;
  file.error = OpenFreshName(calls, target, &file.path, &fd);
  if (file.error != 0) return file;
  file.error = Fill(calls, like, bytes, fd.get(), &file.version);
  if (file.error != 0) RemoveOurs(calls, file.path);
  return file;
}

std::string KeepAsConflict(const FileCalls& calls, const std::string& target, const std::string& path) {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "conflict-%Y%m%d-%H%M%S", &local);
  for (int n = 0; n < kNamesMax; ++n) {
    const std::string name = BesideName(target, n == 0 ? text : text + ("-" + std::to_string(n)));
    if (calls.RenameToFreeName(path, name) == 0) return name;
    struct stat status = {};
    const bool is_free = calls.StatusOfName(name, &status) == ENOENT;  // then renameat2 itself does not work here
    if (is_free && calls.Rename(path, name) == 0) return name;
  }
  return path;
}

}  // namespace stepwatch::writeback
