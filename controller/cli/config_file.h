// A config file read for a command: parsed, or the sentence to print.
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

// Whatever the text is.
Result<std::string> ReadConfigText(const std::string& path);
Result<ConfigFile> ReadConfigFile(const std::string& path);

// "FILE:3:5: error: "ops": …", as compilers print it, with control characters escaped.
std::string PlacedLine(const std::string& path, const char* level, const TextPlace& place, const std::string& message);

}  // namespace stepwatch::cli
