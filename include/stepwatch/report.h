// Reports of a training loop: its phase, numbers of a step, exceptions, its end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stepwatch {

// Phase of a run. A monitor begins in kInit; the end of the first step changes kInit to kTrain. Detectors learn the
// usual duration of a step for each phase separately.
enum class Phase : uint8_t { kInit, kTrain, kEval, kCheckpoint, kPaused };
inline constexpr int kPhaseCount = 5;
const char* PhaseName(Phase phase);  // "init", "train", "eval", "checkpoint", "paused"

// A previous phase, for Monitor::RestorePhase.
struct PhaseMark {
  Phase phase = Phase::kInit;
  int64_t expires_ms = 0;  // time on the monotonic clock; 0: never
};

// A number of a step. Known names are "loss", "grad_norm", "lr", "tokens", "samples", "loss_scale" and "step_seconds"
// (the rank's own time, without waiting for others); other names are kept as they are. NaN and infinities are valid.
struct ReportedNumber {
  std::string_view name;  // 1 to kReportedNameBytesMax bytes, copied; "step", "phase" and "module" are reserved
  double value = 0;
};
inline constexpr int kReportedNameBytesMax = 39;

inline constexpr int64_t kStepInProgress = -1;

// An uncaught exception, or one that the program reports.
struct ExceptionReport {
  std::string type;         // "ValueError"; cut after 200 bytes
  std::string message;      // cut after 1,000 bytes
  std::string stack;        // frames as text, the innermost last; at most the last 6,000 bytes are kept
  std::string fingerprint;  // equal for equal faults, independent of numbers in the message; empty: none
  bool ends_run = false;    // uncaught: the process ends by it
};

// End of a process, as far as the process can report it.
enum class RunEnd : uint8_t { kOk, kError, kSignal };
const char* RunEndName(RunEnd end);  // "ok", "error", "signal"

}  // namespace stepwatch
