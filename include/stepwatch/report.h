// What a training loop says of itself: in which phase it is, numbers of a step, what went wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepwatch {

// What a run is doing. A monitor begins in kInit; the end of the first step turns that into kTrain. How long a step may
// take before somebody worries is learnt for each phase of its own.
enum class Phase : uint8_t { kInit, kTrain, kEval, kCheckpoint, kPaused };
inline constexpr int kPhaseCount = 5;
const char* PhaseName(Phase phase);  // "init", "train", "eval", "checkpoint", "paused"

// A phase that was, for Monitor::RestorePhase.
struct PhaseMark {
  Phase phase = Phase::kInit;
  int64_t expires_ms = 0;  // by the monotonic clock; 0: never
};

// A number of a step. Known names have a meaning for who watches the run: "loss", "grad_norm", "lr", "tokens",
// "samples", "loss_scale", "step_seconds" (the rank's own time, without waiting for others); any other one is kept as
// it is. NaN and infinities are numbers, too.
struct ReportedNumber {
  std::string_view name;  // 1 to kReportedNameBytesMax bytes; not "step", "phase" or "module", which are said otherwise
  double value = 0;
};
inline constexpr int kReportedNameBytesMax = 39;

inline constexpr int64_t kStepInProgress = -1;

// An exception that nobody has caught, or that the program wants known.
struct ExceptionReport {
  std::string type;         // "ValueError"
  std::string message;      // cut after 1,000 bytes
  std::string stack;        // frames as text, the innermost last; cut at its beginning, the last 6,000 bytes are kept
  std::string fingerprint;  // the same for the same fault, whatever numbers its message holds; empty: none
  bool ends_run = false;    // nobody will catch it: the process ends by it
};

// How a process ends, as far as it can say itself.
enum class RunEnd : uint8_t { kOk, kError, kSignal };
const char* RunEndName(RunEnd end);  // "ok", "error", "signal"

}  // namespace stepwatch
