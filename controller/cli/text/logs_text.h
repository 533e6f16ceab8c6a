// Records of logs for people: the likely cause first, then the last progress of each rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/logs/record.h"

namespace stepwatch::cli {

// Collects what a summary needs, in bounded memory.
class LogSummary {
 public:
  void Add(const logs::Record& record);
  // The cause with its advice, other findings, and a table of ranks.
  std::string Text() const;

 private:
  struct RankState {
    std::optional<int64_t> step;
    std::vector<std::pair<std::string, double>> numbers;  // of the last step
    double t = 0;                                         // of the last line
    uint64_t errors = 0;
  };

  std::string CausesText() const;
  std::string RanksText() const;

  std::vector<logs::Record> notable_;  // with anomalies or an exception, in order
  uint64_t notable_left_out_ = 0;
  std::map<int64_t, RankState> ranks_;  // -1: unknown
  uint64_t records_ = 0;
};

// "2024-01-15 10:30:15 rank 3 error: message" with the stack of an exception below it.
std::string RecordText(const logs::Record& record);

}  // namespace stepwatch::cli
