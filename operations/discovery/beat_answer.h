// Parser of an answer of GET /v1/beats. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operations/vocabulary/line.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// A control socket of Stepwatch sends a fifth of that in an answer.
inline constexpr size_t kAnswerLinesMax = 10000;

struct BeatAnswer {
  std::string run;  // empty: not agreed on yet
  int64_t rank = 0;
  uint64_t next = 0;     // `since` of the next request
  uint64_t newest = 0;   // number of the newest existing line
  uint64_t lost = 0;     // requested lines that are no longer kept
  uint64_t dropped = 0;  // reports that never became a line, from the beginning on
  std::vector<Line> lines;
  uint64_t refused = 0;  // invalid lines
};

// Lines with another run or rank than the answer get those of the answer: a process reports only about itself.
Result<BeatAnswer> ParseBeatAnswer(std::string_view json_untrusted);

}  // namespace stepwatch::operations
