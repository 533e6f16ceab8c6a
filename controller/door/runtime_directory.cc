#include "controller/door/runtime_directory.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>

#include "src/base/file.h"
#include "src/base/text.h"

namespace stepwatch::door {
namespace {

constexpr mode_t kOnlyOurs = 0700;

// A link with a slash behind it would be followed.
std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Status Refusal(const std::string& path, const std::string& why) {
  return Status(StatusCode::kUnavailable, base::Printable(path, 300) + " " + why);
}

}  // namespace

std::vector<std::string> RuntimeDirectories(uid_t uid) {
  std::vector<std::string> directories;
  const char* wanted = std::getenv("STEPWATCH_RUNTIME_DIR");
  if (wanted != nullptr && *wanted != '\0') directories.push_back(WithoutSlashes(wanted));
  directories.push_back(fmt::format("/run/user/{}/stepwatch", uid));
  directories.push_back(fmt::format("/tmp/stepwatch-{}", uid));
  return directories;
}

Status CheckRuntimeDirectory(const std::string& path, uid_t uid, base::FileSystem& files) {
  if (path.empty() || path.front() != '/') return Refusal(path, "is no absolute path");
  struct stat about {};
  if (base::RepeatInterrupted([&] { return files.Lstat(path.c_str(), &about); }) != 0)
    return base::ErrnoStatus("cannot look at", path, errno);
  if (S_ISLNK(about.st_mode)) return Refusal(path, "is a link, which could be led elsewhere; it must be a directory");
  if (!S_ISDIR(about.st_mode)) return Refusal(path, "is no directory");
  if (about.st_uid != uid)
    return Refusal(path, fmt::format("belongs to uid {}, and this process runs as uid {}", about.st_uid, uid));
  if ((about.st_mode & 0777) != kOnlyOurs)
    return Refusal(
        path, fmt::format("has mode {:04o}; it must be 0700, so that nobody else can enter it", about.st_mode & 0777));
  return Status();
}

Result<std::string> OpenRuntimeDirectory(const std::vector<std::string>& candidates, uid_t uid,
                                         base::FileSystem& files) {
  std::string why;
  for (const std::string& path : candidates) {
    if (!path.empty() && path.front() == '/')
      (void)base::RepeatInterrupted([&] { return files.MakeDirectory(path.c_str(), kOnlyOurs); });
    const Status checked = CheckRuntimeDirectory(path, uid, files);
    if (checked.ok()) return path;
    why += (why.empty() ? "" : "; ") + checked.message();
  }
  return Status(StatusCode::kUnavailable, why);
}

}  // namespace stepwatch::door
