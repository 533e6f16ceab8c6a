#include "controller/cli/config_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "controller/watch/file_snapshot.h"
#include "src/base/file.h"
#include "src/base/sha256.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::cli {

namespace {

Result<std::string> ReadRegularFile(const std::string& path) {
  watch::FileSnapshot snapshot = watch::TakeSnapshot(path);
  if (snapshot.kind == watch::SnapshotKind::kUnstable)
    return Status(StatusCode::kUnavailable, "changed while it was read");
  if (snapshot.kind != watch::SnapshotKind::kBytes)
    return Status(snapshot.kind == watch::SnapshotKind::kMissing ? StatusCode::kNotFound : StatusCode::kUnavailable,
                  snapshot.error);
  return std::move(snapshot.bytes);
}

// The other end may have made the pipe non-blocking.
ssize_t ReadSome(int fd, char* buffer, size_t size) {
  for (;;) {
    const ssize_t got = base::RepeatInterrupted([&] { return ::read(fd, buffer, size); });
    if (got >= 0 || errno != EAGAIN) return got;
    pollfd wait{fd, POLLIN, 0};
    (void)::poll(&wait, 1, -1);
  }
}

Result<std::string> ReadStream(int fd) {
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ReadSome(fd, buffer, sizeof buffer);
    if (got < 0) return Status(StatusCode::kUnavailable, "cannot be read: " + std::generic_category().message(errno));
    if (got == 0) break;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > config::kConfigBytesMax)
      return Status(StatusCode::kInvalid,
                    "longer than " + std::to_string(config::kConfigBytesMax) + " bytes, the maximum of a config");
  }
  if (text.empty())
    return Status(StatusCode::kInvalid, "empty input; the command that should write the config may have failed");
  return text;
}

bool IsPipe(const std::string& path) {
  struct stat about = {};
  return base::FileSystem::Real().Stat(path.c_str(), &about) == 0 && S_ISFIFO(about.st_mode);
}

Result<ConfigFile> Parsed(Result<std::string> text) {
  if (!text.ok()) return text.status();
  auto parsed = config::ParseConfig(text.value());
  if (!parsed.ok()) return parsed.status();
  std::string sha256 = base::Sha256Hex(text.value());
  return ConfigFile{std::move(text).value(), std::move(sha256), std::move(parsed).value()};
}

}  // namespace

Result<ConfigFile> ReadConfigFile(const std::string& path) {
  return Parsed(ReadRegularFile(path));
}

Result<std::string> ReadGivenText(const std::string& file) {
  if (IsStandardInput(file)) return ReadStream(STDIN_FILENO);
  if (!IsPipe(file)) return ReadRegularFile(file);
  const Result<base::UniqueFd> pipe = base::Open(file, O_RDONLY | O_NOCTTY);
  return pipe.ok() ? ReadStream(pipe.value().get()) : pipe.status();
}

Result<ConfigFile> ReadGivenConfig(const std::string& file) {
  return Parsed(ReadGivenText(file));
}

bool IsStandardInput(const std::string& file) {
  return file == "-";
}

std::string NameOfGiven(const std::string& file) {
  return IsStandardInput(file) ? "standard input" : file;
}

std::string PlacedLine(const std::string& path, const char* level, const TextPlace& place, const std::string& message) {
  std::string line = NameOfGiven(path);
  if (place.line > 0) line += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  line += std::string(": ") + level + ": ";
  if (!place.key.empty()) line += "\"" + place.key + "\": ";
  return base::Printable(line + message, 2000);
}

}  // namespace stepwatch::cli
