#include "controller/cli/validate_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "controller/cli/config_file.h"
#include "controller/cli/exit_code.h"
#include "controller/control_socket/json_values.h"
#include "src/base/print.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

void PrintJson(const Result<ConfigFile>& file) {
  const Json json = file.ok() ? control_socket::ValidationJson(file.value().sha256, file.value().parsed)
                              : control_socket::ValidationJson("", file.status());
  base::Print(stdout, "%s\n", json::Dump(json).c_str());
}

void PrintLines(const std::string& path, const Result<ConfigFile>& file) {
  if (!file.ok()) {
    base::Print(stdout, "%s\n", PlacedLine(path, "error", file.status().place(), file.status().message()).c_str());
    return;
  }
  for (const config::Warning& warning : file.value().parsed.warnings)
    base::Print(stdout, "%s\n", PlacedLine(path, "warning", warning.place, warning.message).c_str());
  const size_t count = file.value().parsed.warnings.size();
  base::Print(stdout, "%s: valid%s\n", NameOfGiven(path).c_str(),
              count == 0 ? "" : (", warnings: " + std::to_string(count)).c_str());
}

}  // namespace

int RunValidate(const ValidateArguments& arguments) {
  const Result<ConfigFile> file = ReadGivenConfig(arguments.file);
  if (arguments.json) {
    PrintJson(file);
  } else {
    PrintLines(arguments.file, file);
  }
  return file.ok() ? kExitDone : kExitInvalid;
}

}  // namespace stepwatch::cli
