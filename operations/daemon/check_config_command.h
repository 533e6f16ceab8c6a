// `stepwatchd check-config FILE`.
#pragma once

#include <string>

#include "operations/daemon/daemon_settings.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

struct CheckConfigArguments {
  std::string file;
  bool json = false;
};

// Prints errors and warnings, each with line and column. Returns 0 if the file can be used, 2 if not.
int RunCheckConfig(const CheckConfigArguments& arguments);

Result<ParsedDaemonSettings> ReadSettingsFile(const std::string& path);
// "FILE:3:5: error: "listen.tcp": …", as compilers print it.
std::string PlacedLine(const std::string& path, const char* level, const TextPlace& place, const std::string& message);

}  // namespace stepwatch::operations
