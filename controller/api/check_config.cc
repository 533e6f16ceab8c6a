// Checks a config file without a monitor.
#include "controller/watch/file_snapshot.h"
#include "src/config/parse_config.h"
#include "stepwatch/monitor.h"

namespace stepwatch {

Status CheckConfig(const std::string& path) try {
  const watch::FileSnapshot snapshot = watch::TakeSnapshot(path);
  if (snapshot.kind == watch::SnapshotKind::kUnstable)
    return Status(StatusCode::kUnavailable, path + " changes while it is read");
  if (snapshot.kind != watch::SnapshotKind::kBytes)
    return Status(snapshot.kind == watch::SnapshotKind::kMissing ? StatusCode::kNotFound : StatusCode::kUnavailable,
                  snapshot.error);
  return config::ParseConfig(snapshot.bytes).status();
} catch (const std::exception& error) {  // no descriptor or memory
  return Status(StatusCode::kExhausted, path + " cannot be checked: " + error.what());
}

Status CheckConfigText(const std::string& text) try {
  return config::ParseConfig(text).status();
} catch (const std::exception& error) {
  return Status(StatusCode::kExhausted, std::string("the text cannot be checked: ") + error.what());
}

}  // namespace stepwatch
