// What a verb that changes a config has to say, whether it went through the control socket of a job or wrote the file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "controller/cli/exit_code.h"
#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

struct EditResult {
  ExitCode exit_code = kExitDone;
  Json json;         // for --json
  std::string line;  // for people
};

// As the control socket answers with errors; `via`: "door" (the control socket) or "file".
EditResult Failure(ExitCode exit_code, const char* via, const char* code, const std::string& message);
// An unusable text, which people find at `path`.
EditResult Unusable(const char* via, const std::string& path, const Status& refusal);

// Prints the result: one JSON object, or a line, on standard error unless it is done. Answers the exit code.
int Print(const EditResult& result, bool as_json);

}  // namespace stepwatch::cli
