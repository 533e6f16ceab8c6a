#include "controller/cli/config_file.h"

#include "controller/watch/look.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"

namespace stepwatch::cli {

Result<ConfigFile> ReadConfigFile(const std::string& path) {
  const watch::Look look = watch::LookAt(path);
  if (look.kind == watch::LookKind::kUnstable) return Status(StatusCode::kUnavailable, "changes while it is read");
  if (look.kind != watch::LookKind::kBytes)
    return Status(look.kind == watch::LookKind::kMissing ? StatusCode::kNotFound : StatusCode::kUnavailable,
                  look.error);
  auto parsed = config::ParseConfig(look.bytes);
  if (!parsed.ok()) return parsed.status();
  return ConfigFile{look.sha256, std::move(parsed).value()};
}

std::string PlacedLine(const std::string& path, const char* level, const TextPlace& place, const std::string& message) {
  std::string line = path;
  if (place.line > 0) line += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  line += std::string(": ") + level + ": ";
  if (!place.key.empty()) line += "\"" + place.key + "\": ";
  return base::Printable(line + message, 2000);
}

}  // namespace stepwatch::cli
