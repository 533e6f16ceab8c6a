#include "src/sockets/runtime_directory.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>

#include "src/base/file.h"
#include "src/base/text.h"

namespace stepwatch::sockets {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kLetsThrough = 0710;
constexpr mode_t kOthersWrite = 0022;

// With a trailing slash, a link would be followed.
std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status DirectoryRefusal(const std::string& path, const std::string& why) {
  return Status(StatusCode::kUnavailable, base::Printable(path, 300) + " " + why);
}

// Attributes of the directory itself: links are not followed.
Result<struct stat> AboutDirectory(const std::string& path, base::FileSystem& files) {
  if (path.empty() || path.front() != '/') return DirectoryRefusal(path, "is not an absolute path");
  struct stat about {};
  if (base::RepeatInterrupted([&] { return files.Lstat(path.c_str(), &about); }) != 0)
    return base::ErrnoStatus("cannot look at", path, errno);
  if (S_ISLNK(about.st_mode)) return DirectoryRefusal(path, "is a symbolic link; it must be a directory");
  if (!S_ISDIR(about.st_mode)) return DirectoryRefusal(path, "is not a directory");
  return about;
}

std::vector<std::string> Directories(uid_t uid, bool with_session) {
  std::vector<std::string> directories;
  if (const std::string named = NamedRuntimeDirectory(); !named.empty()) directories.push_back(named);
  if (with_session) directories.push_back(fmt::format("/run/user/{}/stepwatch", uid));
  directories.push_back(fmt::format("/tmp/stepwatch-{}", uid));
  return directories;
}

}  // namespace

std::string NamedRuntimeDirectory() {
  const char* named = std::getenv("STEPWATCH_RUNTIME_DIR");
  return named == nullptr ? "" : WithoutSlashes(named);
}

std::vector<std::string> RuntimeDirectories(uid_t uid) {
  return Directories(uid, true);
}

std::vector<std::string> SharedRuntimeDirectories(uid_t uid) {
  return Directories(uid, false);
}

Status CheckRuntimeDirectory(const std::string& path, uid_t uid, base::FileSystem& files) {
  const auto about = AboutDirectory(path, files);
  if (!about.ok()) return about.status();
  if (about.value().st_uid != uid)
    return DirectoryRefusal(
        path, fmt::format("belongs to uid {}, and this process runs as uid {}", about.value().st_uid, uid));
  const mode_t mode = about.value().st_mode & 0777;
  if (mode != kDirectoryMode && mode != kLetsThrough)
    return DirectoryRefusal(path,
                            fmt::format("has mode {:04o}; it must be 0700, so that no other user can enter it", mode));
  return Status();
}

Result<std::string> OpenRuntimeDirectory(const std::vector<std::string>& candidates, uid_t uid,
                                         base::FileSystem& files) {
  std::string why;
  for (const std::string& path : candidates) {
    // The mode is independent of the program's umask.
    if (!path.empty() && path.front() == '/' &&
        base::RepeatInterrupted([&] { return files.MakeDirectory(path.c_str(), kDirectoryMode); }) == 0)
      (void)files.ChangeModeAt(path.c_str(), kDirectoryMode);
    const Status checked = CheckRuntimeDirectory(path, uid, files);
    if (checked.ok()) return path;
    why += (why.empty() ? "" : "; ") + checked.message();
  }
  return Status(StatusCode::kUnavailable, why);
}

Status LetGroupThrough(gid_t group, const std::string& path, base::FileSystem& files) {
  auto opened = base::Open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, files);
  if (!opened.ok()) return opened.status();
  const int directory = opened.value().get();
  struct stat about {};
  if (files.Fstat(directory, &about) != 0) return base::ErrnoStatus("cannot look at", path, errno);
  const bool is_shared = (about.st_mode & 0777) == kLetsThrough;
  if (is_shared && about.st_gid == group) return Status();
  if (is_shared)
    return DirectoryRefusal(
        path, fmt::format("is shared with group {} for other jobs; set STEPWATCH_RUNTIME_DIR to a separate "
                          "directory for this one",
                          about.st_gid));
  if (files.ChangeOwner(directory, static_cast<uid_t>(-1), group) != 0)
    return base::ErrnoStatus(fmt::format("cannot assign group {}, of which this user must be a member, to", group),
                             path, errno);
  if (files.ChangeMode(directory, kLetsThrough) != 0)
    return base::ErrnoStatus(fmt::format("cannot grant group {} access to", group), path, errno);
  return Status();
}

Result<uid_t> OwnerOfRuntimeDirectory(const std::string& path, base::FileSystem& files) {
  const auto about = AboutDirectory(path, files);
  if (!about.ok()) return about.status();
  if ((about.value().st_mode & kOthersWrite) != 0)
    return DirectoryRefusal(
        path, fmt::format("has mode {:04o}: other users could have put a socket there", about.value().st_mode & 0777));
  return about.value().st_uid;
}

}  // namespace stepwatch::sockets
