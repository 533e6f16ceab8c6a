// What verbs print: text at once, one JSON object, or the reason why not.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "controller/cli/exit_code.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

// Writes to standard output at once. False: standard output is closed.
bool PrintAtOnce(const std::string& text);

// With --watch: the pause between two pictures, and what clears the screen before each.
inline constexpr std::chrono::seconds kWatchRefresh{1};
inline constexpr const char* kClearScreen = "\x1b[H\x1b[2J";

void PrintObject(const nlohmann::ordered_json& json);

// As the door answers with errors, or a line on standard error. Answers the exit code.
ExitCode FailInvalid(const Status& status, bool as_json);

}  // namespace stepwatch::cli
