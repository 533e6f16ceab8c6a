// The output of detectors: a fault begins, or is over.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operations/vocabulary/incident.h"

namespace stepwatch::operations {

struct Finding {
  IncidentKind kind = IncidentKind::kStuck;
  // Distinguishes findings of one kind with different causes; mostly empty.
  std::string key;
  std::vector<int64_t> ranks;  // culprits, the most certain first
  std::optional<int64_t> since_step;
  std::optional<Severity> unusual_severity;  // nullopt: that of the kind
  Evidence evidence;
  // Seconds that the incident waits for a better explanation.
  double hold_seconds = 0;
  // A symptom explains no other finding, and opens an incident only if no other finding explains it.
  bool is_symptom = false;

  Severity severity() const { return unusual_severity.value_or(SeverityOf(kind)); }
};

struct Recovery {
  IncidentKind kind = IncidentKind::kStuck;
  std::string key;
  Evidence evidence;
};

// In the order in which they were made.
class Findings {
 public:
  using Entry = std::variant<Finding, Recovery>;

  void Raise(Finding finding) { entries_.emplace_back(std::move(finding)); }
  void Clear(IncidentKind kind, std::string key = {}, Evidence evidence = {}) {
    entries_.emplace_back(Recovery{kind, std::move(key), std::move(evidence)});
  }
  std::vector<Entry> Take() { return std::exchange(entries_, {}); }
  bool empty() const { return entries_.empty(); }

 private:
  std::vector<Entry> entries_;
};

}  // namespace stepwatch::operations
