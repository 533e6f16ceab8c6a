// Settings of the intake of logs: the key "logs" of stepwatchd.json.
#pragma once

#include <string>
#include <vector>

#include "operations/logs/outputs/output_settings.h"
#include "src/config/field.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

struct LogFilesSettings {
  std::string path;  // a pattern, see operations/logs/file_pattern.h
  std::string run;   // of files whose pattern has no {run}

  bool operator==(const LogFilesSettings&) const = default;
};

struct LogSettings {
  std::vector<LogFilesSettings> files;
  std::vector<outputs::OutputSettings> outputs;  // of recognised records

  bool operator==(const LogSettings&) const = default;
};

inline constexpr size_t kLogPatternsMax = 32;

// The object "logs".
Status ReadLogs(const config::Field& field, config::Notes& notes, LogSettings& out);

}  // namespace stepwatch::operations
