// JSON lines of a request to lines of this observer's clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

inline constexpr size_t kRefusalsMax = 100;

struct TakenBeats {
  std::vector<Line> lines;
  int64_t refused = 0;
  std::vector<std::pair<int64_t, std::string>> refusals;  // line numbers from 1, and why; the first kRefusalsMax
};

// Blank lines are passed over. A step of a clock is refused: this observer's clock is its own.
//
// The sender's clock need not be ours. `sent`, in the sender's clock, is when it sent the request: all times are moved
// by the difference to `now`. Without it, the newest line is taken as just seen if it is over kClockSecondsMax from
// `now`. No line is later than `now`. Pure.
inline constexpr double kClockSecondsMax = 5;
TakenBeats TakeBeats(std::string_view body_untrusted, std::optional<double> sent, double now);

// The same in pieces: thousands of lines take longer than others can wait.
class BeatReader {
 public:
  explicit BeatReader(std::string_view body_untrusted) : rest_(body_untrusted) {}

  // Reads at most so many lines. False: no line is left.
  bool ReadSome(int64_t lines_max);
  TakenBeats Finish(std::optional<double> sent, double now);

 private:
  std::string_view rest_;
  int64_t number_ = 0;
  TakenBeats taken_;
};

}  // namespace stepwatch::operations
