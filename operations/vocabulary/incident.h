// An incident: one cause, opened once, updated as symptoms join, resolved when the run has recovered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "operations/vocabulary/names.h"

namespace stepwatch::operations {

using EvidenceValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                                   std::vector<std::string>>;

// The evidence of an incident, in reading order. Keys are unique.
class Evidence {
 public:
  using Entry = std::pair<std::string, EvidenceValue>;

  // Adds the value, or replaces that of the key.
  void Set(std::string_view key, EvidenceValue value);
  void SetText(std::string_view key, std::string_view text) { Set(key, EvidenceValue(std::string(text))); }
  // Null if there is no such key.
  const EvidenceValue* Find(std::string_view key) const;
  const std::vector<Entry>& entries() const { return entries_; }
  // Sets all members of the other one.
  void Merge(const Evidence& other);

 private:
  std::vector<Entry> entries_;
};

// A published change of an incident: complete each time, so that the last one is its present state.
struct Incident {
  double t = 0;  // of this change, in the clock of that moment
  IncidentKind kind = IncidentKind::kStuck;
  IncidentState state = IncidentState::kOpened;
  std::string run;
  std::vector<int64_t> ranks;         // culprits; empty: unknown
  std::optional<int64_t> since_step;  // the last good step
  std::string id;                     // unique for each run and opening
  Severity severity = Severity::kWarning;
  Evidence evidence;
  double opened_t = 0;  // `t` of the opening
};

}  // namespace stepwatch::operations
