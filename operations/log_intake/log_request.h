// The body of POST /v1/logs: lines of JSON objects as agents send them, a list of such objects, or OTLP/HTTP in JSON.
// Pure.
//
// An object has its text in `message`, `log` or `msg`, and may name time, host, file, offset, level, run and rank,
// under dotted keys or in objects. One with an exception or with numbers of its own is a record, and is read as a
// whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/log_intake/sent_line.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// Facts about all lines of the request.
struct LogRequestNames {
  std::string run;  // empty: not named
  std::optional<int64_t> rank;
};

struct SentLines {
  std::vector<SentLine> lines;
  bool is_otlp = false;
  int64_t refused = 0;
  std::vector<std::pair<int64_t, std::string>> refusals;  // numbers from 1, with reasons; the first kLogRefusalsMax
};

inline constexpr size_t kLogRefusalsMax = 100;
inline constexpr size_t kLogLinesMax = 100'000;  // of a request

// kInvalid: the body has no line that is accepted, and is not empty. kExhausted: it has more than kLogLinesMax lines.
Result<SentLines> ReadLogRequest(std::string_view body_untrusted, const LogRequestNames& names);

}  // namespace stepwatch::operations
