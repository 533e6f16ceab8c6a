// Numbers that a front end computes itself, of tensors on devices whose memory no engine here reads.
//
// The tensor is seen in one call, Recorder::MeasureLate, and the numbers are there later: the record waits for them in
// its step frame exactly as one of a tensor in CUDA memory does, and is dropped as late where that one would be.
#pragma once

#include <chrono>
#include <cstdint>

#include "stepwatch/statistics.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

// The device of a tensor whose memory nothing here reads: no engine is made for it.
inline constexpr Device kElsewhere{DeviceKind::kCuda, -1};

// Stands for one tensor whose numbers are under way. `number` is the front end's, and names nothing else until the
// ticket is used up or discarded.
struct LateTicket {
  uint64_t number = 0;
  // The result is a sign agreement: it is in Statistics::mean, and nothing else is set.
  bool is_agreement = false;
  // What the trainer's thread has spent on it: launching operators, mostly. Counted with the site's kind.
  std::chrono::nanoseconds spent{0};
};

// How `zeros` is counted under the plan in force.
struct ZerosRule {
  double eps = 1e-8;
  EpsMode mode = EpsMode::kParity;
};

// The front end's side (Recorder::SetLateResults). Calls come from several threads, one at a time for each ticket, and
// must not wait.
class LateResults {
 public:
  virtual ~LateResults() = default;
  // The drain thread. True, once for a ticket, when its numbers are there; the ticket is then used up.
  virtual bool Harvest(uint64_t ticket, Statistics* statistics) noexcept = 0;
  // Nobody will ask for this ticket again.
  virtual void Discard(uint64_t ticket) noexcept = 0;
};

}  // namespace stepwatch
