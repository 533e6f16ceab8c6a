// One line of a trace, which is a JSON object, to a value:
//
//   {"t": 12.5, "run": "r1", "rank": 0, "beat": {"step": 40, "phase": "train", "loss": 2.31, "module":
//   "layers.3.attn"}}
//   {"t": 13, "run": "r1", "rank": 3, "event": {"kind": "exception", "type": "ValueError", "message": "…", "stack":
//   "…"}}
//
// The rank of an event may be inside the event instead. NaN and infinities are the strings "nan", "inf" and "-inf";
// null is the same as absent. Unknown keys of a beat are reported numbers if they are numbers, otherwise ignored;
// unknown keys of an event and of the line are ignored. An unusable number, phase or module of a beat counts as absent:
// the rest of the beat, with the life and position of the rank, is more important. A clock_step, host or gpu event
// needs no run: it belongs to the observer, or to every run that it concerns.
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
inline constexpr std::string_view kNcclRasName = "nccl_ras";  // the `source` of stacks that are its answer

// Pure. Errors: kExhausted: the line is too long; kInvalid: not a JSON object; kWrongType: a value of a type that its
// key does not accept; kOutOfRange: an unusable value; kNotFound: a required key is missing; kUnsupported: an event of
// an unknown kind.
Result<Line> ParseLine(std::string_view text_untrusted);

}  // namespace stepwatch::operations
