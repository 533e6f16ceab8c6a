// Lines that are JSON objects: those of docker, of ECS, of loggers, and the article-style {"level", "message", ...}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/logs/line_time.h"
#include "src/logs/record.h"

namespace stepwatch::logs {

struct JsonLine {
  bool is_envelope = false;  // docker's: `text` is a line to be read in its turn
  std::string text;
  std::optional<double> t;
  Record record;  // filled except for id, source and observed_t
};

// Nullopt: not an object with a message or with progress.
std::optional<JsonLine> ReadJsonLine(std::string_view line_untrusted, const TimePolicy& policy);

}  // namespace stepwatch::logs
