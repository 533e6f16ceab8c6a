#include "controller/cli/config_file.h"

#include "controller/watch/file_snapshot.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::cli {

namespace {

Result<watch::FileSnapshot> ReadSnapshot(const std::string& path) {
  const watch::FileSnapshot snapshot = watch::TakeSnapshot(path);
  if (snapshot.kind == watch::SnapshotKind::kUnstable)
    return Status(StatusCode::kUnavailable, "changes while it is read");
  if (snapshot.kind != watch::SnapshotKind::kBytes)
    return Status(snapshot.kind == watch::SnapshotKind::kMissing ? StatusCode::kNotFound : StatusCode::kUnavailable,
                  snapshot.error);
  return snapshot;
}

}  // namespace

Result<std::string> ReadConfigText(const std::string& path) {
  Result<watch::FileSnapshot> snapshot = ReadSnapshot(path);
  if (!snapshot.ok()) return snapshot.status();
  return std::move(snapshot.value().bytes);
}

Result<ConfigFile> ReadConfigFile(const std::string& path) {
  const Result<watch::FileSnapshot> read = ReadSnapshot(path);
  if (!read.ok()) return read.status();
  const watch::FileSnapshot& snapshot = read.value();
  auto parsed = config::ParseConfig(snapshot.bytes);
  if (!parsed.ok()) return parsed.status();
  return ConfigFile{snapshot.bytes, snapshot.sha256, std::move(parsed).value()};
}

std::string PlacedLine(const std::string& path, const char* level, const TextPlace& place, const std::string& message) {
  std::string line = path;
  if (place.line > 0) line += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  line += std::string(": ") + level + ": ";
  if (!place.key.empty()) line += "\"" + place.key + "\": ";
  return base::Printable(line + message, 2000);
}

}  // namespace stepwatch::cli
