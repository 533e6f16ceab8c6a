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

// Sources that others fill.
struct SentLogSettings {
  std::vector<std::string> paths = {};       // patterns that name the run, or the rank, of a path that an agent sends
  std::string syslog = {};                   // "127.0.0.1:5514"; empty: none
  std::vector<std::string> journal = {};     // units, or matches FIELD=VALUE; empty: it is not read
  std::string journal_directory = {};        // empty: the journal of this machine
  bool kmsg = false;                         // /dev/kmsg is read
  std::string nccl_ras = "localhost:28028";  // which is asked about a run that is stuck; empty: never

  bool operator==(const SentLogSettings&) const = default;
};

struct LogSettings {
  std::vector<LogFilesSettings> files;
  SentLogSettings sent = {};
  std::vector<outputs::OutputSettings> outputs;  // of recognised records

  bool operator==(const LogSettings&) const = default;
};

inline constexpr size_t kLogPatternsMax = 32;

// The object "logs".
Status ReadLogs(const config::Field& field, config::Notes& notes, LogSettings& out);

}  // namespace stepwatch::operations
