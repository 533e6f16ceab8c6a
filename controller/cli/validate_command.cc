#include "controller/cli/validate_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/config_file.h"
#include "controller/cli/exit_code.h"

namespace stepwatch::cli {
namespace {

using Json = nlohmann::ordered_json;

Json PlaceJson(const TextPlace& place, const std::string& message) {
  Json json = Json::object();
  if (!place.key.empty()) json["key"] = place.key;
  if (place.line > 0) json["line"] = place.line, json["column"] = place.column;
  json["message"] = message;
  return json;
}

void PrintJson(const Result<ConfigFile>& file) {
  Json json = {{"valid", file.ok()}};
  if (file.ok()) {
    json["sha256"] = file.value().sha256;
    json["warnings"] = Json::array();
    for (const config::Warning& warning : file.value().parsed.warnings)
      json["warnings"].push_back(PlaceJson(warning.place, warning.message));
  } else {
    json["error"] = PlaceJson(file.status().place(), file.status().message());
  }
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

void PrintLines(const std::string& path, const Result<ConfigFile>& file) {
  if (!file.ok()) {
    std::printf("%s\n", PlacedLine(path, "error", file.status().place(), file.status().message()).c_str());
    return;
  }
  for (const config::Warning& warning : file.value().parsed.warnings)
    std::printf("%s\n", PlacedLine(path, "warning", warning.place, warning.message).c_str());
  const size_t count = file.value().parsed.warnings.size();
  std::printf("%s: usable%s\n", path.c_str(), count == 0 ? "" : (", warnings: " + std::to_string(count)).c_str());
}

}  // namespace

int RunValidate(const ValidateArguments& arguments) {
  const Result<ConfigFile> file = ReadConfigFile(arguments.file);
  if (arguments.json) {
    PrintJson(file);
  } else {
    PrintLines(arguments.file, file);
  }
  return file.ok() ? kExitDone : kExitInvalid;
}

}  // namespace stepwatch::cli
