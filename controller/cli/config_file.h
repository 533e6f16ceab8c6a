// A config read for a command: parsed, or the error to print.
#pragma once

#include <string>

#include "src/config/config.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

struct ConfigFile {
  std::string text;
  std::string sha256;
  config::ParsedConfig parsed;
};

// The config of a job: a regular file.
Result<ConfigFile> ReadConfigFile(const std::string& path);

// The FILE argument of a verb: a regular file, a pipe, as `<(...)` of a shell makes one, or "-", which is standard
// input. Reads a pipe to its end, but no more than a config may have. A pipe can be read once.
Result<std::string> ReadGivenText(const std::string& file);
// The same, parsed.
Result<ConfigFile> ReadGivenConfig(const std::string& file);

// True for "-".
bool IsStandardInput(const std::string& file);
// "standard input" for "-", otherwise the path.
std::string NameOfGiven(const std::string& file);

// "FILE:3:5: error: "ops": …", as compilers print it, with control characters escaped. "-" is shown as standard input.
std::string PlacedLine(const std::string& path, const char* level, const TextPlace& place, const std::string& message);

}  // namespace stepwatch::cli
