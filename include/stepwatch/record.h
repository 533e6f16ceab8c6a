// A record: the statistics of one observation, ready for the sinks.
#pragma once

#include <array>
#include <cstdint>

#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/statistics.h"

namespace stepwatch {

// One (statistic, value) pair. Counts and extremes of integer tensors are i64, all others f64.
struct StatValue {
  Stat stat = Stat::kNorm;
  bool is_integer = false;
  union {
    double f64 = 0;
    int64_t i64;
  };
};

inline constexpr uint16_t kNoElement = 0xffff;
inline constexpr int kValuesMax = kOpCount;  // no kind has more columns

// Plain bytes, copied through the ring; owns no memory.
struct Record {
  enum Flag : uint8_t {
    kMissing = 1,  // the hook fired without a tensor: a row of nan, which alarms do not treat as NaN
    kInDoubt = 2,  // collected while this rank did not know the job's decision
    kPending = 4,  // its numbers are still on their way from a device; sinks never receive it
    // One row for several calls of a communication operator whose tensors differ in dtype or shape: the column prints
    // nan, and the field here is that of one of the calls.
    kMixedDtype = 8,
    kMixedShape = 16,
  };
  int64_t step = 0;
  PlanId plan_id = 0;
  SiteId site = 0;
  int32_t micro_step = 0;         // from 0 in every step
  uint16_t element = kNoElement;  // position in a tuple: name cell gets `_i`; kNoElement: no tuple
  uint16_t call = 0;              // k-th further call in one micro-batch: name cell gets `@k`
  DType dtype = DType::kFloat32;
  uint8_t ndim = 0;
  uint8_t flags = 0;
  uint8_t value_count = 0;
  std::array<int64_t, kDimsMax> dims{};
  std::array<StatValue, kValuesMax> values{};

  bool missing() const { return (flags & kMissing) != 0; }
  bool pending() const { return (flags & kPending) != 0; }
  bool mixed_dtype() const { return (flags & kMixedDtype) != 0; }
  bool mixed_shape() const { return (flags & kMixedShape) != 0; }
};

// Flag beside the update number in `call`, for a parameter's tensor: the previous update failed, and rows of this
// update replace its rows.
constexpr uint16_t kRepeatedUpdate = 0x8000;

// Place of an observed tensor, from the front end.
struct Observation {
  SiteId site = 0;
  int32_t micro_step = 0;
  uint16_t element = kNoElement;
  uint16_t call = 0;  // call of a module in one micro-batch, or update of a parameter in one step
};

// Reasons for lost records. Every loss is counted under one of them, per plan.
enum class DropReason : uint8_t {
  kRingFull,     // the drain was too slow: two steps of rows, or all results that a device may have, were waiting
  kUnsupported,  // the tensor cannot be measured: complex, or on a device without an engine
  kLate,         // arrived after its step frame or its plan was closed, or 5 s after the end of the step, or found no
                 // memory until the run ended
  kSinkFailed,   // the sink kept failing until its backlog was full or the run ended, or Limits::bytes_max was used up
};
inline constexpr int kDropReasonCount = 4;
const char* DropReasonName(DropReason reason);  // "ring_full", ...

// produced == written + sum(dropped), exactly, once a plan is drained. Calls of a communication operator that are
// joined into one row count as one record.
struct Ledger {
  uint64_t produced = 0;
  uint64_t written = 0;
  std::array<uint64_t, kDropReasonCount> dropped{};

  uint64_t dropped_total() const {
    uint64_t total = 0;
    for (uint64_t count : dropped) total += count;
    return total;
  }
  bool balanced() const { return produced == written + dropped_total(); }
};

}  // namespace stepwatch
