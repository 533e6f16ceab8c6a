#include "controller/writeback/temporary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <ctime>
#include <system_error>
#include <vector>

#include "src/base/process_identity.h"
#include "src/base/sha256.h"
#include "src/base/time_text.h"

namespace stepwatch::writeback {
namespace {

const char kDisplaced[] = "displaced-";
const char kNew[] = "new";
const char kEdit[] = "edit";
constexpr size_t kMachineIdSize = 8;
constexpr int kNamesMax = 100;  // limit of temporary files of this process that could not be removed

std::string BesideName(const std::string& target, const std::string& suffix) {
  return base::JoinPath(base::DirectoryOf(target), "." + base::BaseName(target) + ".stepwatch-" + suffix);
}

// Tries one name after the other as long as `try_name` returns EEXIST.
template <class TryName>
int ToFreeName(const std::string& target, const std::string& suffix, TryName try_name) {
  int error = EEXIST;
  for (int n = 0; n < kNamesMax && error == EEXIST; ++n)
    error = try_name(BesideName(target, n == 0 ? suffix : suffix + "-" + std::to_string(n)));
  return error;
}

// Identifies the host, boot and container in which a pid is valid.
std::string MachineId(const base::ProcessIdentity& process) {
  return base::Sha256Hex(process.host + "\n" + process.boot_id + "\n" + process.pid_namespace)
      .substr(0, kMachineIdSize);
}

// The process identity comes from the kernel, whose files are on no mount that could fail or hang.
std::string FreshSuffix(std::string_view bytes, TextOf whose) {
  const base::ProcessIdentity process = base::ThisProcess();
  return std::string(whose == TextOf::kUs ? kNew : kEdit) + "-" + TextId(bytes) + "-" + MachineId(process) + "-" +
         std::to_string(process.pid) + "-" + std::to_string(process.started) + "-";
}

int OpenFreshName(base::FileSystem& files, const std::string& target, const std::string& suffix, mode_t mode,
                  std::string* path, base::UniqueFd* fd) {
  int error = EEXIST;
  for (int n = 0; n < kNamesMax && error == EEXIST; ++n) {
    *path = BesideName(target, suffix + std::to_string(n));
    error = OpenFile(files, *path, O_RDWR | O_CREAT | O_EXCL, fd, mode);
  }
  return error;
}

// Sets the owner first: a change of owner clears mode bits.
int Resemble(base::FileSystem& files, int like, int fd) {
  struct stat wanted = {}, found = {};
  if (const int error = StatusOf(files, like, &wanted)) return error;
  if (const int error = StatusOf(files, fd, &found)) return error;
  if (wanted.st_uid != found.st_uid || wanted.st_gid != found.st_gid) {
    if (const int error = ErrnoOf([&] { return files.ChangeOwner(fd, wanted.st_uid, wanted.st_gid); })) return error;
  }
  CopyAttributes(files, like, fd);
  return ErrnoOf([&] { return files.ChangeMode(fd, wanted.st_mode & 07777); });
}

int Fill(base::FileSystem& files, std::string_view bytes, int fd, Version* version) {
  if (const int error = WriteWhole(files, fd, bytes, 0)) return error;
  if (const int error = Sync(files, fd)) return error;
  struct stat status = {};
  if (const int error = StatusOf(files, fd, &status)) return error;
  *version = {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino), std::string(bytes)};
  return 0;
}

std::vector<std::string_view> PartsOf(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find('-');
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// False: not a number.
template <class Number>
bool ReadNumber(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

TemporaryFile WriteBeside(base::FileSystem& files, const std::string& target, int like, std::string_view bytes,
                          TextOf whose) {
  TemporaryFile file;
  base::UniqueFd fd;
  file.error = OpenFreshName(files, target, FreshSuffix(bytes, whose), S_IRUSR | S_IWUSR, &file.path, &fd);
  if (file.error != 0) return file;
  file.error = Resemble(files, like, fd.get());
  if (file.error == 0) file.error = Fill(files, bytes, fd.get(), &file.version);
  if (file.error != 0) RemoveOurs(files, file.path);
  return file;
}

TemporaryFile WriteNewBeside(base::FileSystem& files, const std::string& target, std::string_view bytes) {
  constexpr mode_t kAsTheUmaskSays = 0666;
  TemporaryFile file;
  base::UniqueFd fd;
  file.error = OpenFreshName(files, target, FreshSuffix(bytes, TextOf::kUs), kAsTheUmaskSays, &file.path, &fd);
  if (file.error != 0) return file;
  file.error = Fill(files, bytes, fd.get(), &file.version);
  if (file.error != 0) RemoveOurs(files, file.path);
  return file;
}

std::string TextId(std::string_view bytes) {
  return base::Sha256Hex(bytes).substr(0, kTextIdSize);
}

std::optional<TemporaryName> ParseTemporaryName(const std::string& target, std::string_view name) {
  const std::string start = base::BaseName(BesideName(target, ""));
  if (!name.starts_with(start)) return std::nullopt;
  const std::vector<std::string_view> parts = PartsOf(name.substr(start.size()));
  TemporaryName about;
  int n = 0;
  if (parts.size() == 2 && ReadNumber(parts[0], &about.pid) && ReadNumber(parts[1], &n)) return TemporaryName();
  if (parts.size() != 6 || (parts[0] != kNew && parts[0] != kEdit)) return std::nullopt;
  if (parts[1].size() != kTextIdSize || parts[2].size() != kMachineIdSize) return std::nullopt;
  if (!ReadNumber(parts[3], &about.pid) || !ReadNumber(parts[4], &about.started) || !ReadNumber(parts[5], &n))
    return std::nullopt;
  about.is_of_ours = parts[0] == kNew;
  about.text = parts[1];
  about.machine = parts[2];
  return about;
}

std::optional<bool> IsWriterRunning(const TemporaryName& name) {
  base::ProcessIdentity process = base::ThisProcess();
  if (name.machine != MachineId(process)) return std::nullopt;
  process.pid = name.pid;
  process.started = name.started;
  return base::IsRunning(process);
}

int NameDisplaced(base::FileSystem& files, const std::string& target, const DisplacedName& texts, std::string* path) {
  return ToFreeName(target, kDisplaced + texts.base + "-" + texts.ours, [&](const std::string& name) {
    const int error = MoveToFreeName(files, *path, name);
    if (error == 0) *path = name;
    return error;
  });
}

int LinkDisplaced(base::FileSystem& files, const std::string& target, const DisplacedName& texts, std::string* path) {
  return ToFreeName(target, kDisplaced + texts.base + "-" + texts.ours, [&](const std::string& name) {
    const int error = ErrnoOf([&] { return files.Link(target.c_str(), name.c_str()); });
    if (error == 0) *path = name;
    return error;
  });
}

std::optional<DisplacedName> ParseDisplacedName(const std::string& target, std::string_view name) {
  const std::string start = base::BaseName(BesideName(target, kDisplaced));
  if (name.substr(0, start.size()) != start) return std::nullopt;
  name.remove_prefix(start.size());
  if (name.size() < 2 * kTextIdSize + 1 || name[kTextIdSize] != '-') return std::nullopt;
  return DisplacedName{std::string(name.substr(0, kTextIdSize)),
                       std::string(name.substr(kTextIdSize + 1, kTextIdSize))};
}

std::string KeepAsConflict(base::FileSystem& files, const std::string& target, const std::string& path) {
  const std::string text = base::LocalText(std::time(nullptr), "conflict-%Y%m%d-%H%M%S");
  std::string kept = path;
  ToFreeName(target, text, [&](const std::string& name) {
    const int error = MoveToFreeName(files, path, name);
    if (error == 0) kept = name;
    return error;
  });
  return kept;
}

}  // namespace stepwatch::writeback
