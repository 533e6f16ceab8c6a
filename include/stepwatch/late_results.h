// Statistics that a front end computes itself, for tensors on devices whose memory no engine of the monitor reads.
//
// Recorder::MeasureLate records the tensor; its statistics arrive later. The record waits for them in its step frame,
// like one of a tensor in CUDA memory, and is dropped as late after the same time.
#pragma once

#include <chrono>
#include <cstdint>

#include "stepwatch/statistics.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

// Device of a tensor whose memory the monitor does not read; it has no engine.
inline constexpr Device kElsewhere{DeviceKind::kCuda, -1};

// One tensor whose statistics are pending. The front end chooses `number`; it must stay unique until the ticket is
// harvested or discarded.
struct LateTicket {
  uint64_t number = 0;
  // The result is a sign agreement: Statistics::mean holds it, and no other field is set.
  bool is_agreement = false;
  // Time that the trainer's thread spent on it, mostly launching operators. Counted with the site's kind.
  std::chrono::nanoseconds spent{0};
};

// Rule by which the plan in force counts `zeros`.
struct ZerosRule {
  double eps = 1e-8;
  EpsMode mode = EpsMode::kParity;
};

// Implemented by the front end (Recorder::SetLateResults). Several threads call it, one at a time for each ticket.
// Calls must not wait.
class LateResults {
 public:
  virtual ~LateResults() = default;
  // Drain thread. Returns true, once per ticket, when the statistics are ready, and fills them in; the ticket is then
  // used up.
  virtual bool Harvest(uint64_t ticket, Statistics* statistics) noexcept = 0;
  // Any thread. The ticket will not be harvested any more.
  virtual void Discard(uint64_t ticket) noexcept = 0;
};

}  // namespace stepwatch
