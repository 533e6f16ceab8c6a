// Which histories `stepwatch history` and `show` are about.
#pragma once

#include <string>
#include <vector>

#include "src/output/history_file.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

struct HistoryPlace {
  std::string path;
  std::vector<output::FoundHistory> runs;
};

// `word`: a history, the directory of a run or of several, or a running job as FindJob takes it, whose run it is then.
// Empty: the only running job; without one the output base, MONITOR_OUTPUT_DIR or ./monitor_output.
Result<HistoryPlace> FindHistoryPlace(const std::string& word);

}  // namespace stepwatch::cli
