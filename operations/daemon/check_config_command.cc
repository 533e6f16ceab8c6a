#include "operations/daemon/check_config_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/http/answers.h"

namespace stepwatch::operations {
namespace {

void PrintJson(const Result<ParsedDaemonSettings>& parsed) {
  Json json = http::VersionedAnswer();
  json.update({{"valid", parsed.ok()}, {"error", nullptr}, {"warnings", Json::array()}});
  if (!parsed.ok()) json["error"] = http::PlaceJson(parsed.status().place(), parsed.status().message());
  if (parsed.ok())
    for (const config::Warning& warning : parsed.value().warnings)
      json["warnings"].push_back(http::PlaceJson(warning.place, warning.message));
  base::Print(stdout, "%s\n", json::Dump(json).c_str());
}

}  // namespace

Result<ParsedDaemonSettings> ReadSettingsFile(const std::string& path) {
  const Result<std::string> text = base::ReadFile(path, kSettingsBytesMax);
  if (!text.ok()) return text.status();
  return ParseDaemonSettings(text.value());
}

std::string PlacedLine(const std::string& path, const char* level, const TextPlace& place, const std::string& message) {
  std::string line = path;
  if (place.line > 0) line += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  line += std::string(": ") + level + ": ";
  if (!place.key.empty()) line += "\"" + place.key + "\": ";
  return base::Printable(line + message, 8 << 10);
}

int RunCheckConfig(const CheckConfigArguments& arguments) {
  const Result<ParsedDaemonSettings> parsed = ReadSettingsFile(arguments.file);
  if (arguments.json) {
    PrintJson(parsed);
    return parsed.ok() ? 0 : 2;
  }
  if (!parsed.ok()) {
    const Status status = parsed.status();
    base::Print(stdout, "%s\n", PlacedLine(arguments.file, "error", status.place(), status.message()).c_str());
    return 2;
  }
  const auto& warnings = parsed.value().warnings;
  for (const config::Warning& warning : warnings)
    base::Print(stdout, "%s\n", PlacedLine(arguments.file, "warning", warning.place, warning.message).c_str());
  const std::string count = warnings.empty() ? "" : ", warnings: " + std::to_string(warnings.size());
  base::Print(stdout, "%s: valid%s\n", base::Printable(arguments.file, 300).c_str(), count.c_str());
  return 0;
}

}  // namespace stepwatch::operations
