// Records as JSON: a line of the Elastic Common Schema, or a log record of OpenTelemetry.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "src/logs/record.h"

namespace stepwatch::logs {

// Names that belong to the run, not to its lines. Empty: left out.
struct RunNames {
  std::string run;      // its id
  std::string service;  // its name for people
};

// "info", "error", ...; empty for kUnset. As in ECS and in `--severity`.
std::string_view LevelName(Level level);
// OpenTelemetry's number: 0 unset, 1 trace, 5 debug, 9 info, 13 warning, 17 error, 21 fatal.
int SeverityNumber(Level level);
// The level, or the higher one of the worst anomaly: critical is an error, warning a warning.
Level EffectiveLevel(const Record& record);

// One line, without line feed.
std::string EcsJson(const Record& record, const RunNames& names);
// One logRecord of OTLP.
std::string OtelJson(const Record& record, const RunNames& names);
// The body of a request to /v1/logs.
std::string OtlpRequest(std::span<const Record> records, const RunNames& names);

}  // namespace stepwatch::logs
