// Parser of an answer of GET /v1/beats. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "operations/vocabulary/line.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// A control socket of ours has a fifth of that in an answer.
inline constexpr size_t kAnswerLinesMax = 10000;

struct BeatAnswer {
  std::string run;  // empty: not agreed on yet
  int64_t rank = 0;
  uint64_t next = 0;     // the next question's `since`
  uint64_t newest = 0;   // number of the newest line that there is
  uint64_t lost = 0;     // lines that were asked for and are not kept any more
  uint64_t dropped = 0;  // what never became a line, from the beginning on
  std::vector<Line> lines;
  uint64_t refused = 0;  // invalid lines
};

// Lines that name another run or rank than the answer count as those of the answer: a process reports only about
// itself.
Result<BeatAnswer> ParseBeatAnswer(std::string_view json_untrusted);

}  // namespace stepwatch::operations
