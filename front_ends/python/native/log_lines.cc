#include "front_ends/python/native/log_lines.h"

#include <Python.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>

namespace stepwatch::python {
namespace {

const char* LevelName(LogLevel level) {
  static constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR", "SILENT"};
  return kNames[static_cast<int>(level)];
}

LogLevel LevelOf(EventKind kind) {
  // The format of msProbe, whose users select lines by MSPROBE_LOG_LEVEL.
  if (kind == EventKind::kAlarm) return LogLevel::kInfo;
  switch (SeverityOf(kind)) {
    case EventSeverity::kInfo: break;
    case EventSeverity::kWarning: return LogLevel::kWarning;
    case EventSeverity::kError: return LogLevel::kError;
  }
  return LogLevel::kInfo;
}

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  char text[32] = "";
  if (localtime_r(&now, &local) != nullptr) (void)std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

// Returns whether a write of at most PIPE_BUF bytes returns at once.
bool TakesMore(int descriptor) {
  pollfd asked{descriptor, POLLOUT, 0};
  return poll(&asked, 1, 0) == 1 && (asked.revents & POLLOUT) != 0;
}

}  // namespace

LogLevel LogLevelFromEnvironment() {
  const char* value = std::getenv("MSPROBE_LOG_LEVEL");
  if (value == nullptr || value[0] < '0' || value[0] > '4' || value[1] != '\0') return LogLevel::kInfo;
  return static_cast<LogLevel>(value[0] - '0');
}

LogLevel LogLevelHere() {
  PyObject* const standard_output = PySys_GetObject("__stdout__");  // borrowed
  const bool has_none = standard_output == nullptr || standard_output == Py_None;
  return has_none ? LogLevel::kSilent : LogLevelFromEnvironment();
}

void PrintLine(LogLevel level, int rank, const std::string& text) {
  std::string line = Now() + " (" + std::to_string(getpid()) + ") ";
  if (rank >= 0) line += "[rank " + std::to_string(rank) + "] ";
  line += std::string("[") + LevelName(level) + "] " + text + "\n";
  // Writes straight to the descriptor: a line must not wait in a buffer, nor be lost with a killed process.
  size_t written = 0;
  while (written < line.size() && TakesMore(STDOUT_FILENO)) {
    const size_t piece = std::min<size_t>(line.size() - written, PIPE_BUF);
    const ssize_t count = write(STDOUT_FILENO, line.data() + written, piece);
    if (count <= 0) return;  // standard output is closed or full
    written += static_cast<size_t>(count);
  }
}

std::function<void(const Event&)> MakeEventPrinter(LogLevel level, int rank) {
  return [level, rank](const Event& event) {
    const LogLevel of_event = LevelOf(event.kind);
    if (of_event >= level) PrintLine(of_event, rank, EventText(event));
  };
}

}  // namespace stepwatch::python
