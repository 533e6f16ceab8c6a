// Lines on standard output, in the format of msProbe.
#pragma once

#include <functional>
#include <string>

#include "stepwatch/event.h"

namespace stepwatch::python {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kSilent = 4 };

// MSPROBE_LOG_LEVEL: "0" to "4"; anything else is kInfo.
LogLevel LogLevelFromEnvironment();
// kSilent if the interpreter began without standard output, since the descriptor may then be another file's; otherwise
// as above. With the GIL held.
LogLevel LogLevelHere();

// "2026-11-21 14:03:07 (4711) [rank 3] [WARNING] text", in local time; control characters are escaped. `rank` -1: no
// such part. Uses one write, so that lines of several processes do not mix. Any thread; never waits for a reader: bytes
// that a pipe or a terminal does not accept at once are lost.
void PrintLine(LogLevel level, int rank, const std::string& text);

// Prints events of `level` and above.
std::function<void(const Event&)> MakeEventPrinter(LogLevel level, int rank);

}  // namespace stepwatch::python
