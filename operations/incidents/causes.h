// Rules that decide which finding is a symptom of which incident.
#pragma once

#include "operations/detectors/finding.h"
#include "operations/vocabulary/incident.h"

namespace stepwatch::operations {

// Returns whether the kinds explain each other.
enum class Family : uint8_t { kNumbers, kLife, kPace, kSaving };
Family FamilyOf(IncidentKind kind);

// An open incident, and its times. Seconds are virtual.
struct CauseView {
  const Incident* incident = nullptr;
  double seconds_open = 0;
  bool has_trained_since = false;  // the run has finished steps after it was opened
  bool has_trained_on = false;     // enough for it to be over for the living ranks
  // Since it was opened, or another symptom of it began.
  double seconds_quiet = 0;
  std::optional<int64_t> steps_quiet;  // until the finding began; absent: unknown
  double beat_seconds = 0;             // between two beats of a rank
};

bool Explains(const CauseView& cause, const Finding& finding);

// Returns whether, of two waiting findings, the first is the better explanation of the second.
bool Outranks(const Finding& better, const Finding& other);

}  // namespace stepwatch::operations
