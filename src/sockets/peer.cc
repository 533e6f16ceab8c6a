#include "src/sockets/peer.h"

#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "src/base/file.h"
#include "src/base/text.h"
#include "src/base/unforked_fd.h"

namespace stepwatch::sockets {
namespace {

constexpr unsigned kUsualOverflowId = 65534;
// 2^32 - 1: the last number is reserved for "no id".
constexpr uint64_t kIdsOfAll = 4294967295;
constexpr size_t kProcBytesMax = 64 << 10;
constexpr size_t kGroupBytesMax = size_t{1} << 20;

// SO_PEERGROUPS needs Linux 4.13; without it the list is empty.
std::vector<gid_t> GroupsOf(int fd) {
  std::vector<gid_t> groups(32);
  for (;;) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int result = ::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
    if (result != 0 && (errno != ERANGE || bytes / sizeof(gid_t) <= groups.size())) return {};
    groups.resize(bytes / sizeof(gid_t));
    if (result == 0) return groups;
  }
}

std::optional<unsigned> OverflowId(const char* map, const char* overflow) {
  const Result<std::string> ids = base::ReadFile(map, kProcBytesMax);
  if (ids.ok() && MapsAllIds(ids.value())) return std::nullopt;
  const Result<std::string> text = base::ReadFile(overflow, kProcBytesMax);
  if (!text.ok()) return kUsualOverflowId;
  const unsigned long id = std::strtoul(text.value().c_str(), nullptr, 10);
  return id == 0 ? kUsualOverflowId : static_cast<unsigned>(id);
}

}  // namespace

std::optional<Peer> PeerOf(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  Peer peer{credentials.pid, credentials.uid, GroupsOf(fd)};
  peer.groups.push_back(credentials.gid);
  return peer;
}

Access AccessOf(const std::optional<Peer>& peer, const Admission& admission) {
  if (!peer || peer->uid == admission.overflow_uid) return Access::kNone;
  if (peer->uid == admission.owner || peer->uid == 0) return Access::kAll;
  if (!admission.readers || admission.readers == admission.overflow_gid) return Access::kNone;
  for (const gid_t group : peer->groups)
    if (group == *admission.readers) return Access::kRead;
  return Access::kNone;
}

std::string WhoMayAsk(const Admission& admission) {
  if (admission.owner == admission.overflow_uid)
    return fmt::format(
        "this job runs as uid {}, which in its user namespace stands for every user that is not mapped there; it "
        "therefore accepts requests from root only. Run it as another user",
        admission.owner);
  std::string text = fmt::format("this job accepts requests from uid {} and root", admission.owner);
  if (admission.readers) text += fmt::format(", and read-only requests from users of group {}", *admission.readers);
  return text;
}

std::optional<uid_t> OverflowUid() {
  return OverflowId("/proc/self/uid_map", "/proc/sys/kernel/overflowuid");
}

std::optional<gid_t> OverflowGid() {
  return OverflowId("/proc/self/gid_map", "/proc/sys/kernel/overflowgid");
}

bool IsTrustedServer(const std::optional<Peer>& server, std::optional<uid_t> trusted) {
  const uid_t self = ::geteuid();
  if (!server) return false;
  if (self == 0 || server->uid == 0) return true;
  return (server->uid == self || server->uid == trusted) && server->uid != OverflowUid();
}

std::string ProgramOf(int fd, const Peer& peer) {
  constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, since Linux 6.5
  if (peer.pid <= 0) return "";
  const base::UnforkedFd process = base::UnforkedFd::Make([fd] {
    int pidfd = -1;
    socklen_t size = sizeof pidfd;
    return ::getsockopt(fd, SOL_SOCKET, kPeerPidfd, &pidfd, &size) == 0 ? pidfd : -1;
  });
  if (!process.valid()) return "";
  std::string program(PATH_MAX, '\0');
  const std::string link = "/proc/" + std::to_string(peer.pid) + "/exe";
  const ssize_t length = base::FileSystem::Real().ReadLink(link.c_str(), program.data(), program.size());
  pollfd ended{process.get(), POLLIN, 0};
  if (length <= 0 || ::poll(&ended, 1, 0) != 0) return "";
  program.resize(static_cast<size_t>(length));
  return program;
}

// Each line is a range: the first id inside, the first outside, their count. Ranges do not overlap.
bool MapsAllIds(std::string_view id_map) {
  std::istringstream lines{std::string(id_map)};
  uint64_t known = 0, inside = 0, outside = 0, count = 0;
  while (lines >> inside >> outside >> count) known += count;
  return known == kIdsOfAll;
}

Result<gid_t> FindGroup(const std::string& name) {
  gid_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) return number;
  group found{};
  group* result = nullptr;
  std::vector<char> text(1024);
  int failure = 0;
  while ((failure = ::getgrnam_r(name.c_str(), &found, text.data(), text.size(), &result)) == ERANGE &&
         text.size() < kGroupBytesMax)
    text.resize(2 * text.size());
  if (result != nullptr) return result->gr_gid;
  return Status(StatusCode::kNotFound, "unknown group " + base::Printable(name, 100) +
                                           (failure == 0 ? "" : ": " + std::generic_category().message(failure)));
}

}  // namespace stepwatch::sockets
