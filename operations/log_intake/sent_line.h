// A line of a log, or of the journal or the kernel, with the facts that its sender knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/logs/record.h"

namespace stepwatch::operations {

struct SentLine {
  std::string text;             // any bytes
  std::string id = {};          // the same for a repetition; empty: unknown
  std::string source = {};      // the path of its file, or the name of a unit
  std::string host = {};        // empty: unknown
  std::string run = {};         // empty: not named
  std::optional<int64_t> rank;  // one in the text overrides it
  std::optional<double> t;      // when it was written or read, in seconds of the wall clock
  logs::Level level = logs::Level::kUnset;
  std::string component = {};
  std::optional<int64_t> pid;  // of the process on this machine that wrote it
  bool is_of_kernel = false;   // of this machine: a process id in the text is one of its processes
  bool is_truncated = false;
};

inline constexpr size_t kSentNameBytesMax = 512;  // of ids, sources, hosts, runs and components

// A foreign text as such a name: valid UTF-8 without control characters.
std::string SentName(std::string_view untrusted);
// An id that stands for the text.
std::string SentId(std::string_view text);
// 0 (emergency) to 7 (debug), as syslog, the journal and the kernel number them; kUnset: another number.
logs::Level LevelOfSeverity(int severity);

}  // namespace stepwatch::operations
