// One line for each thing worth knowing, on standard error, where systemd's journal takes it.
//
// A thread of its own writes it, because standard error may be a pipe that nobody reads: then nobody waits for it, and
// the newest lines are dropped, counted, and reported as soon as somebody reads again.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepwatch::operations {

enum class LogLevel { kInfo, kWarning, kError };

// "2026-11-23T14:00:00Z warning: …"; no byte in it can steer a terminal. Waits for some milliseconds at most. Any
// thread.
void Log(LogLevel level, std::string_view text);
// Since the start of the process.
int64_t LogLinesDropped();

}  // namespace stepwatch::operations
