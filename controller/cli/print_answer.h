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

// Standard output has no reader any more: the other end of the pipe is closed.
bool OutputIsClosed();

// With --watch: the pause between two pictures. A terminal is cleared before each; elsewhere a blank line follows it.
inline constexpr std::chrono::seconds kWatchRefresh{1};
bool PrintPicture(const std::string& text);

// A file byte for byte; on a terminal without control characters.
void PrintBytes(const std::string& bytes);

void PrintObject(const nlohmann::ordered_json& json);

// As the control socket answers with errors, or a line on standard error. Answers the exit code.
ExitCode FailInvalid(const Status& status, bool as_json);

}  // namespace stepwatch::cli
