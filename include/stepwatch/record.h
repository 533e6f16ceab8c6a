// A record: one observation turned into numbers, ready for the sinks.
#pragma once

#include <array>
#include <cstdint>

#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/statistics.h"

namespace stepwatch {

// One (statistic, value) pair. Counts and the extremes of integer tensors are i64, all else f64.
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

// Plain bytes: copied through the ring, never owning anything.
struct Record {
  enum Flag : uint8_t {
    kMissing = 1,  // the hook fired without a tensor: prints a row of nan, and is not NaN for alarms
    kInDoubt = 2,  // collected while this rank did not know the job's decision
    kPending = 4,  // its numbers are still on their way from a device; no sink ever sees it
    // A row of several calls of a communication operator, which had tensors of several dtypes, or shapes: the column
    // prints nan, and the field here is that of one of them.
    kMixedDtype = 8,
    kMixedShape = 16,
  };
  int64_t step = 0;
  PlanId plan_id = 0;
  SiteId site = 0;
  int32_t micro_step = 0;         // from 0 at every step
  uint16_t element = kNoElement;  // position in a tuple: name cell gets `_i`; kNoElement: none
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

// Beside the number of an update, as the call of a parameter's tensor: the update before it has failed, and rows of
// this one take the places of its rows.
constexpr uint16_t kRepeatedUpdate = 0x8000;

// Where a tensor was seen, as a front end says it.
struct Observation {
  SiteId site = 0;
  int32_t micro_step = 0;
  uint16_t element = kNoElement;
  uint16_t call = 0;  // of a module in one micro-batch, or update of a parameter in one step
};

// Why records were lost. Every loss is counted under one of these, for every plan.
enum class DropReason : uint8_t {
  kRingFull,     // the drain was too slow: two steps of rows, or all results a device may have, were waiting
  kUnsupported,  // a tensor that cannot be measured: complex, a device without an engine
  kLate,         // arrived after its step frame or its plan was closed, or 5 s after the step had ended, or found no
                 // memory until the run ended
  kSinkFailed,   // the sink kept failing until its backlog was full or the run ended, or Limits::bytes_max was used up
};
inline constexpr int kDropReasonCount = 4;
const char* DropReasonName(DropReason reason);  // "ring_full", ...

// produced == written + sum(dropped), exactly, once a plan is drained. Calls of a communication operator that are
// joined into one row are one record here.
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
