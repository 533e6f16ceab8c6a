#include "src/base/confined_files.h"

#include <fcntl.h>
#include <linux/fs.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace stepwatch::base {
namespace {

constexpr int kDirectoryFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

int Fail(int error_number) {
  errno = error_number;
  return -1;
}

// "/a//b/./c/" -> {"a", "b", "c"}
std::vector<std::string> PartsOf(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  }
  return parts;
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string path;
  for (const std::string& part : parts) path += "/" + part;
  return path;
}

bool GoesUp(const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (part == "..") return true;
  return false;
}

bool IsBelow(const std::string& path, const std::string& root) {
  return path.compare(0, root.size(), root) == 0 && (path.size() == root.size() || path[root.size()] == '/');
}

// openat2 is missing (ENOSYS), blocked by a seccomp filter (EPERM), or the kernel lacks a flag (EINVAL).
bool LacksOpenat2(int error_number) {
  return error_number == ENOSYS || error_number == EPERM || error_number == EINVAL;
}

}  // namespace

Result<std::unique_ptr<ConfinedFiles>> ConfinedFiles::Open(const std::string& root, FileSystem& files) {
  std::string working_directory;
  const bool knows_directory = files.CurrentDirectory(&working_directory) == 0;
  if (!knows_directory && (root.empty() || root.front() != '/'))
    return ErrnoStatus("cannot find", "the working directory", errno);
  std::unique_ptr<ConfinedFiles> confined(new ConfinedFiles(files, std::move(working_directory)));
  const std::string absolute = confined->Absolute(root);
  Status made = MakeDirectories(absolute, files);
  if (!made.ok()) return made;
  Result<UniqueFd> fd = base::Open(absolute, kDirectoryFlags, 0, files);
  if (!fd.ok()) return fd.status();
  confined->root_ = std::move(fd).value();
  const std::vector<std::string> parts = PartsOf(absolute);
  if (!GoesUp(parts)) confined->root_paths_.push_back(Joined(parts));
  std::string resolved;
  if (files.RealPath(absolute.c_str(), &resolved) != 0) return ErrnoStatus("cannot resolve", absolute, errno);
  const std::string real = Joined(PartsOf(resolved));
  if (confined->root_paths_.empty() || confined->root_paths_.front() != real) confined->root_paths_.push_back(real);
  return confined;
}

std::string ConfinedFiles::Absolute(const std::string& path) const {
  return !path.empty() && path.front() == '/' ? path : JoinPath(working_directory_, path);
}

int ConfinedFiles::Relative(const char* path, std::string* relative) const {
  if (*path == '\0') return Fail(ENOENT);
  if (*path != '/' && working_directory_.empty()) return Fail(EXDEV);
  const std::vector<std::string> parts = PartsOf(Absolute(path));
  if (GoesUp(parts)) return Fail(EXDEV);
  const std::string absolute = Joined(parts);
  for (const std::string& root : root_paths_) {
    if (!IsBelow(absolute, root)) continue;
    *relative = absolute.size() == root.size() ? "." : absolute.substr(root.size() + 1);
    return 0;
  }
  return Fail(EXDEV);
}

int ConfinedFiles::OpenRelative(const std::string& relative, int flags, mode_t mode) {
  const int fd = files_.OpenBeneath(root_.get(), relative.c_str(), flags, mode);
  return fd >= 0 || !LacksOpenat2(errno) ? fd : WalkTo(relative, flags, mode);
}

int ConfinedFiles::WalkTo(const std::string& relative, int flags, mode_t mode) {
  const std::vector<std::string> parts = PartsOf(relative);
  UniqueFd directory;
  const auto here = [&] { return directory.valid() ? directory.get() : root_.get(); };
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const int next = RepeatInterrupted([&] { return files_.OpenAt(here(), parts[i].c_str(), kDirectoryFlags, 0); });
    if (next < 0) {
      const int error_number = errno;
      struct stat about = {};
      const bool is_link = files_.StatAt(here(), parts[i].c_str(), &about) == 0 && S_ISLNK(about.st_mode);
      return Fail(is_link ? ELOOP : error_number);  // with O_DIRECTORY a link fails with ENOTDIR
    }
    directory = UniqueFd(next);
  }
  const char* const name = parts.empty() ? "." : parts.back().c_str();
  // O_PATH would open the link itself, and O_DIRECTORY would report ENOTDIR.
  struct stat about = {};
  if (files_.StatAt(here(), name, &about) == 0 && S_ISLNK(about.st_mode)) {
    const bool must_be_new = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0;
    return Fail(must_be_new ? EEXIST : ELOOP);
  }
  return files_.OpenAt(here(), name, flags, mode);
}

int ConfinedFiles::Find(const char* path, Place* place) {
  std::string relative;
  if (Relative(path, &relative) != 0) return -1;
  const size_t slash = relative.rfind('/');
  place->name = slash == std::string::npos ? relative : relative.substr(slash + 1);
  const std::string parent = slash == std::string::npos ? "." : relative.substr(0, slash);
  const int fd = RepeatInterrupted([&] { return OpenRelative(parent, kDirectoryFlags, 0); });
  if (fd < 0) return -1;
  place->directory = UniqueFd(fd);
  return 0;
}

Status ConfinedFiles::Check(const std::string& path) {
  const auto outside = [&](const std::string& why) {
    return Status(StatusCode::kExhausted, "the output directory " + path + " " + why + " the output root " + root());
  };
  std::string relative;
  if (Relative(path.c_str(), &relative) != 0)
    return outside(GoesUp(PartsOf(path)) ? "contains \"..\", which may lead out of" : "is outside");
  for (;;) {
    const int fd = RepeatInterrupted([&] { return OpenRelative(relative, kDirectoryFlags, 0); });
    if (fd >= 0) {
      (void)UniqueFd(fd);
      return Status();
    }
    if (errno == ELOOP) return outside("goes through a symbolic link, which may lead out of");
    const size_t slash = relative.rfind('/');
    if (errno != ENOENT || slash == std::string::npos) return Status();  // the write itself reports why it fails
    relative.resize(slash);
  }
}

int ConfinedFiles::Open(const char* path, int flags, mode_t mode) {
  std::string relative;
  return Relative(path, &relative) == 0 ? OpenRelative(relative, flags, mode) : -1;
}

int ConfinedFiles::Stat(const char* path, struct stat* about) {
  if (Lstat(path, about) != 0) return -1;
  return S_ISLNK(about->st_mode) ? Fail(ELOOP) : 0;
}

int ConfinedFiles::Lstat(const char* path, struct stat* about) {
  Place place;
  return Find(path, &place) == 0 ? files_.StatAt(place.directory.get(), place.name.c_str(), about) : -1;
}

int ConfinedFiles::RenameFlagged(const char* from, const char* to, unsigned flags) {
  Place source, target;
  if (Find(from, &source) != 0 || Find(to, &target) != 0) return -1;
  return files_.RenameAt(source.directory.get(), source.name.c_str(), target.directory.get(), target.name.c_str(),
                         flags);
}

int ConfinedFiles::Rename(const char* from, const char* to) {
  return RenameFlagged(from, to, 0);
}
int ConfinedFiles::RenameNew(const char* from, const char* to) {
  return RenameFlagged(from, to, RENAME_NOREPLACE);
}
int ConfinedFiles::Exchange(const char* a, const char* b) {
  return RenameFlagged(a, b, RENAME_EXCHANGE);
}

int ConfinedFiles::Link(const char* from, const char* to) {
  Place source, target;
  if (Find(from, &source) != 0 || Find(to, &target) != 0) return -1;
  return files_.LinkAt(source.directory.get(), source.name.c_str(), target.directory.get(), target.name.c_str());
}

int ConfinedFiles::Unlink(const char* path) {
  Place place;
  return Find(path, &place) == 0 ? files_.UnlinkAt(place.directory.get(), place.name.c_str(), 0) : -1;
}

int ConfinedFiles::MakeDirectory(const char* path, mode_t mode) {
  Place place;
  return Find(path, &place) == 0 ? files_.MakeDirectoryAt(place.directory.get(), place.name.c_str(), mode) : -1;
}

int ConfinedFiles::RemoveDirectory(const char* path) {
  Place place;
  return Find(path, &place) == 0 ? files_.UnlinkAt(place.directory.get(), place.name.c_str(), AT_REMOVEDIR) : -1;
}

int ConfinedFiles::List(const char* path, std::vector<std::string>* names) {
  const int fd = RepeatInterrupted([&] { return Open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0) return -1;
  const UniqueFd directory(fd);
  return files_.ListAt(fd, names);
}

int ConfinedFiles::Access(const char*, int) {
  return Fail(EOPNOTSUPP);
}
int ConfinedFiles::ChangeOwnerAt(const char*, uid_t, gid_t) {
  return Fail(EOPNOTSUPP);
}
int ConfinedFiles::ChangeModeAt(const char*, mode_t) {
  return Fail(EOPNOTSUPP);
}
ssize_t ConfinedFiles::ReadLink(const char*, char*, size_t) {
  return Fail(EOPNOTSUPP);
}
int ConfinedFiles::RealPath(const char*, std::string*) {
  return Fail(EOPNOTSUPP);
}
int ConfinedFiles::MakeUniqueDirectory(char*) {
  return Fail(EOPNOTSUPP);
}
int ConfinedFiles::AddWatch(int, const char*, uint32_t) {
  return Fail(EOPNOTSUPP);
}

}  // namespace stepwatch::base
