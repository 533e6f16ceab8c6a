#include "operations/vocabulary/names.h"

#include <iterator>

namespace stepwatch::operations {
namespace {

constexpr std::array<std::string_view, 5> kPhases = {"init", "train", "eval", "checkpoint", "paused"};
constexpr std::array<std::string_view, 4> kEndReasons = {"ok", "error", "signal", "lost"};
constexpr std::array<std::string_view, 3> kSeverities = {"info", "warning", "critical"};
constexpr std::array<std::string_view, 3> kStates = {"opened", "updated", "resolved"};

using vocabulary::kIncidentKindTexts;
static_assert(std::size(kIncidentKindTexts) == kIncidentKinds);

template <class Enum, size_t kCount>
std::optional<Enum> Named(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (size_t i = 0; i < kCount; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

std::string_view NameOf(RunPhase phase) {
  return kPhases[static_cast<size_t>(phase)];
}
std::string_view NameOf(EndReason reason) {
  return kEndReasons[static_cast<size_t>(reason)];
}
std::string_view NameOf(IncidentKind kind) {
  return kIncidentKindTexts[static_cast<size_t>(kind)].name;
}
std::string_view NameOf(Severity severity) {
  return kSeverities[static_cast<size_t>(severity)];
}
std::string_view NameOf(IncidentState state) {
  return kStates[static_cast<size_t>(state)];
}

Severity SeverityOf(IncidentKind kind) {
  return kIncidentKindTexts[static_cast<size_t>(kind)].severity;
}

std::optional<RunPhase> PhaseNamed(std::string_view name) {
  return Named<RunPhase>(kPhases, name);
}
std::optional<EndReason> EndReasonNamed(std::string_view name) {
  return Named<EndReason>(kEndReasons, name);
}
std::optional<IncidentKind> IncidentKindNamed(std::string_view name) {
  for (size_t i = 0; i < kIncidentKinds; ++i)
    if (kIncidentKindTexts[i].name == name) return static_cast<IncidentKind>(i);
  return std::nullopt;
}
std::optional<Severity> SeverityNamed(std::string_view name) {
  return Named<Severity>(kSeverities, name);
}
std::optional<IncidentState> IncidentStateNamed(std::string_view name) {
  return Named<IncidentState>(kStates, name);
}

}  // namespace stepwatch::operations
