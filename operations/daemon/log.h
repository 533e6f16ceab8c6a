// The log on standard error, which systemd's journal records: one line per entry.
//
// A thread of its own writes it, because standard error may be a pipe without a reader: no caller waits for it, and the
// newest lines are dropped, counted, and reported as soon as the pipe is read again.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace stepwatch::operations {

enum class LogLevel { kInfo, kWarning, kError };

// Any thread.
class Log {
 public:
  Log();
  // Continues to write for up to a second.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // "2026-11-23T14:00:00Z warning: …"; no byte in it can control a terminal. Waits for some milliseconds at most.
  void Write(LogLevel level, std::string_view text);
  int64_t lines_dropped() const;

 private:
  class Writer;

  const std::unique_ptr<Writer> writer_;
};

}  // namespace stepwatch::operations
