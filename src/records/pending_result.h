// Ticket of a pending record. It is stored in place of the values, so that the record does not grow.
#pragma once

#include <cstdint>

#include "stepwatch/record.h"

namespace stepwatch::records {

// In place of a device index: the front end measures the tensor itself.
inline constexpr int kFrontEnd = -1;

struct PendingResult {
  uint64_t ticket = 0;
  int device = 0;
  bool agreement = false;  // the result is that of EnqueueAgreement
  bool captured = false;   // `ticket` is a slot of a CUDA graph, and the record goes no further
};

inline void SetPendingResult(const PendingResult& claim, Record* record) noexcept {
  record->flags |= Record::kPending;
  record->value_count = 0;
  record->values[0].i64 = static_cast<int64_t>(claim.ticket);
  record->values[1].i64 = claim.device;
  record->values[2].i64 = claim.agreement ? 1 : 0;
  record->values[3].i64 = claim.captured ? 1 : 0;
}

inline PendingResult PendingResultOf(const Record& record) noexcept {
  return {static_cast<uint64_t>(record.values[0].i64), static_cast<int>(record.values[1].i64),
          record.values[2].i64 != 0, record.values[3].i64 != 0};
}

// True for a placeholder whose rows come from replays of a graph.
inline bool IsCaptured(const Record& record) noexcept {
  return record.pending() && PendingResultOf(record).captured;
}

}  // namespace stepwatch::records
