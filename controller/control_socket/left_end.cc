#include "controller/control_socket/left_end.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "src/base/file.h"
#include "src/base/found_file.h"
#include "src/json/json.h"
#include "src/sockets/runtime_directory.h"

namespace stepwatch::control_socket {
namespace {

constexpr const char* kName = "ends.jsonl";
constexpr const char* kEarlierName = "ends.earlier.jsonl";
constexpr mode_t kOurs = 0600, kOursAndReaders = 0640;
// Maximum size of the lines in one entry; the newest are kept.
constexpr size_t kLineBytesMax = size_t{16} << 10;
constexpr size_t kReadBytesMax = 4 * kLeftEndsBytesMax;

bool LookAt(int fd, struct stat* about, base::FileSystem& files) {
  return base::RepeatInterrupted([&] { return files.Fstat(fd, about); }) == 0;
}

// Starts a new file when this one is large. Only one process does so: the others find that the name refers to another
// file, or that it is locked.
void TurnOver(int fd, const std::string& directory, base::FileSystem& files) {
  struct stat about {
  }, named{};
  const std::string path = base::JoinPath(directory, kName);
  if (!LookAt(fd, &about, files) || static_cast<size_t>(about.st_size) <= kLeftEndsBytesMax) return;
  if (files.Lock(fd, LOCK_EX | LOCK_NB) != 0 || files.Lstat(path.c_str(), &named) != 0) return;
  if (named.st_ino == about.st_ino && named.st_dev == about.st_dev)
    (void)files.Rename(path.c_str(), base::JoinPath(directory, kEarlierName).c_str());
}

void ReadInto(const std::string& path, uid_t owner, base::FileSystem& files, std::vector<LeftEnd>* ends) {
  const Result<std::string> text = base::ReadFound(path, kReadBytesMax, owner, files);
  if (!text.ok()) return;
  std::string_view rest = text.value();
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (std::optional<LeftEnd> parsed = ParseLeftEnd(rest.substr(0, end))) {
      parsed->owner = owner;
      ends->push_back(std::move(*parsed));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace

std::string LeftEndText(const LeftEnd& end) {
  Json lines = Json::array();
  size_t bytes = 0;
  auto first = end.lines.end();
  while (first != end.lines.begin() && (bytes += (first - 1)->size()) <= kLineBytesMax) --first;
  for (; first != end.lines.end(); ++first) lines.push_back(*first);
  return json::Dump({{"host", end.process.host},
                     {"boot_id", end.process.boot_id},
                     {"pid_namespace", end.process.pid_namespace},
                     {"pid", end.process.pid},
                     {"pid_started", end.process.started},
                     {"lines", std::move(lines)}});
}

std::optional<LeftEnd> ParseLeftEnd(std::string_view text_untrusted) {
  const Result<Json> parsed = json::Parse(text_untrusted);
  if (!parsed.ok()) return std::nullopt;
  try {
    const Json& json = parsed.value();
    return LeftEnd{{json.at("host").get<std::string>(), json.at("boot_id").get<std::string>(),
                    json.at("pid_namespace").get<std::string>(), json.at("pid").get<int>(),
                    json.at("pid_started").get<uint64_t>()},
                   json.at("lines").get<std::vector<std::string>>(),
                   std::nullopt};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

// Appends with a single write, so that lines of processes that end together do not mix.
Status LeaveEnd(const std::string& directory, const LeftEnd& end, std::optional<gid_t> readers,
                base::FileSystem& files) {
  const std::string path = base::JoinPath(directory, kName);
  const Result<base::UniqueFd> file = base::OpenFound(path, O_WRONLY | O_APPEND | O_CREAT, ::geteuid(), files, kOurs);
  if (!file.ok()) return file.status();
  const int fd = file.value().get();
  struct stat about {};
  if (!LookAt(fd, &about, files)) return base::ErrnoStatus("cannot look at", path, errno);
  // Other processes append to this file, so its mode must not depend on the umask of this program.
  if (about.st_size == 0) (void)files.ChangeMode(fd, kOurs);
  if (readers && about.st_size == 0 && files.ChangeOwner(fd, static_cast<uid_t>(-1), *readers) == 0)
    (void)files.ChangeMode(fd, kOursAndReaders);
  Status written = base::WriteAll(fd, LeftEndText(end) + "\n", files);
  TurnOver(fd, directory, files);
  return written;
}

std::vector<LeftEnd> ReadLeftEnds(const std::string& directory, base::FileSystem& files) {
  std::vector<LeftEnd> ends;
  const Result<uid_t> owner = sockets::CheckRuntimeDirectory(directory, ::geteuid(), files).ok()
                                  ? Result<uid_t>(::geteuid())
                                  : sockets::OwnerOfRuntimeDirectory(directory, files);
  if (!owner.ok()) return ends;
  for (const char* name : {kEarlierName, kName}) ReadInto(base::JoinPath(directory, name), owner.value(), files, &ends);
  return ends;
}

}  // namespace stepwatch::control_socket
