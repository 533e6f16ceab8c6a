// One line of a trace, which is a JSON object, to a value:
//
//   {"t": 12.5, "run": "r1", "rank": 0, "beat": {"step": 40, "phase": "train", "loss": 2.31, "module":
//   "layers.3.attn"}}
//   {"t": 13, "run": "r1", "rank": 3, "event": {"kind": "exception", "type": "ValueError", "message": "…", "stack":
//   "…"}}
//
// The rank of an event may stand in the event instead. NaN and infinities are the strings "nan", "inf" and "-inf"; null
// is the same as absent. Keys of a beat that are not known are reported numbers if they are numbers, and are ignored if
// not; keys of an event, and of the line, that are not known are ignored. A number, phase or module of a beat that is
// not usable is as if absent: that a rank lives and where it is counts for more. A clock_step, host or gpu event needs
// no run: it is that of the observer, or of every run that it concerns.
#pragma once

#include <cstddef>
#include <string_view>

#include "operations/vocabulary/line.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

inline constexpr size_t kLineBytesMax = 256 << 10;
inline constexpr size_t kRunBytesMax = 200;
inline constexpr int64_t kRankMax = (int64_t{1} << 24) - 1;
inline constexpr size_t kReportedMax = 64;
// Longer texts are cut, not refused.
inline constexpr size_t kNameBytesMax = 200;
inline constexpr size_t kMessageBytesMax = 4 << 10;
inline constexpr size_t kStackBytesMax = 32 << 10;

// Pure. Errors: kExhausted a line that is too long; kInvalid a line that is not a JSON object; kWrongType a value of
// another type than its key takes; kOutOfRange a value that is not usable; kNotFound a required key that is missing;
// kUnsupported an event of an unknown kind.
Result<Line> ParseLine(std::string_view text_untrusted);

}  // namespace stepwatch::operations
