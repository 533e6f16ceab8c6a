// The logs of a run: the ends of its files, and the records that stepwatchd keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/logs/reader.h"
#include "src/logs/record_filter.h"

namespace stepwatch::cli {

// A record, ready to print.
struct LogLine {
  double t = 0;
  std::string text;  // with its line feed
};

struct TailOptions {
  std::string path;
  std::optional<int64_t> rank;    // of its lines
  std::optional<double> since_t;  // earlier records are not needed
  size_t records_max = 1000;
  size_t bytes_max = size_t{16} << 20;  // that are read
};

struct Tail {
  std::vector<logs::Record> records;  // the last ones that the filter selects, at most records_max
  bool is_cut = false;                // bytes_max hid earlier records that may be wanted
};

// Reads the file from its end backwards, no further than necessary. Blocks. A record without a time of its own has in
// observed_t the last time before it, else that of the last change of the file.
Result<Tail> ReadTail(const TailOptions& options, const logs::RecordFilter& filter, const logs::Recogniser& recogniser);

struct RunLogs {
  std::vector<LogLine> lines;      // in the order of their times
  std::vector<std::string> notes;  // files that could not be read, or were read in part
  bool has_more = false;           // there are earlier ones
};

struct RunLogsOptions {
  std::string run;
  std::optional<int64_t> rank;
  std::optional<double> since_t;
  size_t limit = 1000;
  bool json = false;
};

// `answer`: of GET /v1/runs/RUN/logs with the same filter. Its records that are in a file, too, come once.
RunLogs ReadRunLogs(const Json& answer_untrusted, const RunLogsOptions& options, const logs::RecordFilter& filter,
                    const logs::Recogniser& recogniser);

}  // namespace stepwatch::cli
