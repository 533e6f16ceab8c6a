// The enumerations of operations and their names, the same in JSON, on the command line and in docs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "src/vocabulary/incident_kinds.h"

namespace stepwatch::operations {

// The activity that a rank reports. An ended run has no phase, but an EndReason.
enum class RunPhase : uint8_t { kInit, kTrain, kEval, kCheckpoint, kPaused };

// kLost: no end was reported, and every process is gone.
enum class EndReason : uint8_t { kOk, kError, kSignal, kLost };

// Their names and severities are in src/vocabulary/incident_kinds.h, in this order.
enum class IncidentKind : uint8_t {
  kStuck,
  kProcessLost,
  kLossNonfinite,
  kLossSpike,
  kDivergence,
  kGradNonfinite,
  kGradExplosion,
  kGradCollapse,
  kThroughputDrop,
  kStraggler,
  kRankDisagreement,
  kCheckpointOverdue,
  kException,
  kOutOfMemory,
  kGpuFault,
};
inline constexpr size_t kIncidentKinds = 15;

using vocabulary::Severity;

enum class IncidentState : uint8_t { kOpened, kUpdated, kResolved };

std::string_view NameOf(RunPhase phase);
std::string_view NameOf(EndReason reason);
std::string_view NameOf(IncidentKind kind);
std::string_view NameOf(Severity severity);
std::string_view NameOf(IncidentState state);
Severity SeverityOf(IncidentKind kind);

// Empty if no value has the name.
std::optional<RunPhase> PhaseNamed(std::string_view name);
std::optional<EndReason> EndReasonNamed(std::string_view name);
std::optional<IncidentKind> IncidentKindNamed(std::string_view name);
std::optional<Severity> SeverityNamed(std::string_view name);
std::optional<IncidentState> IncidentStateNamed(std::string_view name);

}  // namespace stepwatch::operations
