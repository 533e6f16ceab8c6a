#include "src/sockets/unix_listener.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <random>
#include <string_view>

#include "src/base/file.h"
#include "src/sockets/unix_address.h"

namespace stepwatch::sockets {
namespace {

constexpr int kSocketNumbersMax = 1000;
constexpr int kSocketBacklog = 128;
constexpr std::string_view kEnding = ".sock";
constexpr mode_t kSocketMode = 0600;
constexpr mode_t kAlsoReaders = 0660;

base::UnforkedFd MakeSocket() {
  return base::UnforkedFd::Make([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

// Renames without replacing. Some file systems do not support this directly.
int MoveIntoPlace(const char* from, const char* to, base::FileSystem& files) {
  if (files.RenameNew(from, to) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EPERM) return -1;
  if (files.Link(from, to) != 0) return -1;
  (void)files.Unlink(from);
  return 0;
}

}  // namespace

Result<UnixListener> UnixListener::ListenAt(const std::string& temporary, base::FileSystem& files,
                                            std::optional<gid_t> readers) {
  const std::optional<sockaddr_un> address = UnixAddress(temporary);
  if (!address)
    return Status(StatusCode::kOutOfRange,
                  fmt::format("the path {} is too long: the path of a socket may have at most {} bytes", temporary,
                              kSocketPathBytesMax));
  UnixListener listener;
  listener.files_ = &files;
  listener.fd_ = MakeSocket();
  const auto failed = [&](const char* what) {
    const Status status = base::ErrnoStatus(what, temporary, errno);
    (void)files.Unlink(temporary.c_str());
    return status;
  };
  if (!listener.valid()) return base::ErrnoStatus("cannot make a socket for", temporary, errno);
  // The file inherits the mode of the socket, so other users are kept out even before a chmod.
  if (files.ChangeMode(listener.fd(), kSocketMode) != 0) return failed("cannot restrict access to");
  if (::bind(listener.fd(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return failed("cannot bind");
  // The group is set first: the mode would admit the current group.
  if (readers && files.ChangeOwnerAt(temporary.c_str(), static_cast<uid_t>(-1), *readers) != 0)
    return failed("cannot assign the readers' group to");
  if (readers && files.ChangeModeAt(temporary.c_str(), kAlsoReaders) != 0)
    return failed("cannot grant the readers' group access to");
  if (::listen(listener.fd(), kSocketBacklog) != 0) return failed("cannot listen at");
  struct stat about {};
  if (files.Lstat(temporary.c_str(), &about) != 0) return failed("cannot look at");
  // The program's umask may have removed bits that the owner needs.
  const bool is_ours = (about.st_mode & kSocketMode) == kSocketMode;
  if (!is_ours && files.ChangeModeAt(temporary.c_str(), kSocketMode) != 0) return failed("cannot set the mode of");
  listener.device_ = about.st_dev;
  listener.inode_ = about.st_ino;
  return listener;
}

bool UnixListener::MoveTo(const std::string& temporary, const std::string& path) {
  path_ = path;
  if (MoveIntoPlace(temporary.c_str(), path.c_str(), *files_) == 0) return true;
  if (errno != EEXIST) return false;
  if (!RefusesConnections(path)) {
    errno = EEXIST;
    return false;
  }
  (void)files_->Unlink(path.c_str());
  return MoveIntoPlace(temporary.c_str(), path.c_str(), *files_) == 0;
}

Result<UnixListener> UnixListener::Open(const std::string& directory, pid_t pid, base::FileSystem& files,
                                        std::optional<gid_t> readers) {
  // A temporary name, next to the sockets of the same pid.
  const std::string temporary = base::JoinPath(directory, fmt::format(".{}-{:08x}", pid, std::random_device{}()));
  if (directory.size() + fmt::format("/{}-{}.sock", pid, kSocketNumbersMax).size() > kSocketPathBytesMax)
    return Status(StatusCode::kOutOfRange, fmt::format("the path {} is too long: with the name of a socket it may have "
                                                       "at most {} bytes; set STEPWATCH_RUNTIME_DIR to a shorter one",
                                                       directory, kSocketPathBytesMax));
  Result<UnixListener> listener = ListenAt(temporary, files, readers);
  if (!listener.ok()) return listener;
  for (int number = 1; number <= kSocketNumbersMax; ++number) {
    if (listener.value().MoveTo(temporary, base::JoinPath(directory, fmt::format("{}-{}.sock", pid, number))))
      return listener;
    if (errno != EEXIST) break;
  }
  const Status status = base::ErrnoStatus("cannot put into place", temporary, errno);
  (void)files.Unlink(temporary.c_str());
  return status;
}

Result<UnixListener> UnixListener::OpenAt(const std::string& path, base::FileSystem& files,
                                          std::optional<gid_t> readers) {
  const std::string temporary =
      base::JoinPath(base::DirectoryOf(path), fmt::format(".{:08x}.sock", std::random_device{}()));
  Result<UnixListener> listener = ListenAt(temporary, files, readers);
  if (!listener.ok() || listener.value().MoveTo(temporary, path)) return listener;
  const Status status = errno == EEXIST ? Status(StatusCode::kUnavailable, "another process already listens at " + path)
                                        : base::ErrnoStatus("cannot put into place", path, errno);
  (void)files.Unlink(temporary.c_str());
  return status;
}

bool UnixListener::IsInPlace() const {
  struct stat about {};
  if (!valid() || base::RepeatInterrupted([&] { return files_->Lstat(path_.c_str(), &about); }) != 0) return false;
  return about.st_dev == device_ && about.st_ino == inode_;
}

void UnixListener::Close() {
  if (IsInPlace()) (void)files_->Unlink(path_.c_str());
  fd_.Reset();
}

base::UnforkedFd AcceptAt(int listening) {
  return base::UnforkedFd::Make([=] { return ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
}

pid_t PidOfSocketName(const std::string& name) {
  const size_t begin = name.starts_with('.') ? 1 : 0;
  pid_t pid = -1;
  const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), pid);
  const std::string_view rest(end, static_cast<size_t>(name.data() + name.size() - end));
  if (error != std::errc() || pid <= 0 || !rest.starts_with('-')) return -1;
  if (begin == 1) return pid;
  if (!rest.ends_with(kEnding) || rest.size() <= 1 + kEnding.size()) return -1;
  const std::string_view number = rest.substr(1, rest.size() - 1 - kEnding.size());
  return number.find_first_not_of("0123456789") == std::string_view::npos ? pid : -1;
}

bool RefusesConnections(const std::string& path) {
  const std::optional<sockaddr_un> address = UnixAddress(path);
  const base::UnforkedFd socket = MakeSocket();
  if (!address || !socket.valid()) return false;
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace stepwatch::sockets
