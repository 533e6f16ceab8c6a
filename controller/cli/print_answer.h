// The output of verbs: text printed at once, one JSON object, or an error; and the exit codes.
#pragma once

#include <chrono>
#include <string>

#include "src/json/json.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

// Exit codes with the same meaning for all verbs.
enum ExitCode : int {
  kExitDone = 0,
  kExitDiffers = 1,  // plan: something would change
  kExitInvalid = 2,  // the config or the command line is unusable
  kExitConflict = 3,
  kExitNotAgreed = 4,
  kExitDegraded = 5,  // done, but not completely
  kExitUnreachable = 6,
  kExitNoChange = 7,
  kExitNoStepwatchd = 8,
  kExitInterrupted = 130,
};

// Writes to standard output at once. False: standard output is closed.
bool PrintAtOnce(const std::string& text);

// The other end of the pipe at standard output is closed.
bool OutputIsClosed();

// With --watch: the pause between two screens. A terminal is cleared before each screen; elsewhere a blank line follows
// it.
inline constexpr std::chrono::seconds kWatchRefresh{1};
bool PrintScreen(const std::string& text);

// Prints a file byte for byte; on a terminal without control characters.
void PrintBytes(const std::string& bytes);

void PrintObject(const Json& object);

// Prints the error in the format of the control socket, or as a line on standard error. Returns the exit code.
ExitCode FailInvalid(const Status& status, bool as_json);

}  // namespace stepwatch::cli
