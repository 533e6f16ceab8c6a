// One line for each thing worth knowing, on standard error, where systemd's journal takes it.
#pragma once

#include <string_view>

namespace stepwatch::operations {

enum class LogLevel { kInfo, kWarning, kError };

// "2026-11-23T14:00:00Z warning: …"; nothing in it can steer a terminal.
void Log(LogLevel level, std::string_view text);

}  // namespace stepwatch::operations
