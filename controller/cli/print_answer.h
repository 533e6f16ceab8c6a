// What verbs that read files alone have to say: one JSON object, or the reason why not.
#pragma once

#include <nlohmann/json.hpp>

#include "controller/cli/exit_code.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

void PrintObject(const nlohmann::ordered_json& json);

// As the door answers with errors, or a line on standard error. Answers the exit code.
ExitCode FailInvalid(const Status& status, bool as_json);

}  // namespace stepwatch::cli
