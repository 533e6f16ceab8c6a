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

// Whether the time of steps is counted in this phase.
constexpr bool IsTraining(Phase phase) {
  return phase == Phase::kTrain || phase == Phase::kInit;
}

// A previous phase, for Monitor::RestorePhase.
struct PhaseMark {
  Phase phase = Phase::kInit;
  int64_t expires_ms = 0;  // time on the monotonic clock; 0: never
};

// Part of a training step, for its breakdown by time (docs/formats/beats.md). PartScope sets it for a block.
enum class StepPart : uint8_t {
  kRest,           // all other work of the loop
  kData,           // the training thread waits for the next batch
  kOptimizer,      // the update of weights
  kUnknown,        // time whose part is not known: its step has no breakdown
  kForward,        // front ends set this and the next two in collected steps only
  kBackward,       // a pass of the autograd engine
  kCommunication,  // the training waits for other ranks
};
inline constexpr int kStepPartCount = 7;

// A number of a step. Known names are "loss", "grad_norm", "lr", "tokens", "samples", "loss_scale", "flops" (of this
// rank in this step), "peak_flops" (of its device, in FLOP/s: stepwatch/peak_flops.h) and "step_seconds" (the rank's
// own time, without waiting for others); other names are kept as they are. NaN and infinities are valid.
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
