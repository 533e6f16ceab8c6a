// Converts the JSON lines of a request to lines in this observer's clock.
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
  std::vector<std::pair<int64_t, std::string>> refusals;  // line numbers from 1, with reasons; the first kRefusalsMax
};

// Blank lines are skipped. A clock step is refused: this observer's clock is its own.
//
// The sender's clock may differ. `sent`, in the sender's clock, is the time at which it sent the request: all times are
// shifted by the difference to `now`. Without it, the newest line counts as just seen if it differs from `now` by more
// than kClockSecondsMax. No line is later than `now`. Pure.
inline constexpr double kClockSecondsMax = 5;
TakenBeats TakeBeats(std::string_view body_untrusted, std::optional<double> sent, double now);

// The same in pieces: thousands of lines take longer than other requests can wait.
class BeatReader {
 public:
  explicit BeatReader(std::string_view body_untrusted) : rest_(body_untrusted) {}

  // Reads at most this many lines. False: no line is left.
  bool ReadSome(int64_t lines_max);
  TakenBeats Finish(std::optional<double> sent, double now);

 private:
  std::string_view rest_;
  int64_t number_ = 0;
  TakenBeats taken_;
};

}  // namespace stepwatch::operations
