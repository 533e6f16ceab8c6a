// What detectors say: something is wrong, or is no longer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operations/vocabulary/incident.h"

namespace stepwatch::operations {

struct Finding {
  IncidentKind kind = IncidentKind::kStuck;
  // Tells findings of one kind apart that are causes of their own; mostly empty.
  std::string key;
  std::vector<int64_t> ranks;  // culprits, the surest first
  std::optional<int64_t> since_step;
  Severity severity = Severity::kWarning;
  Evidence evidence;
  // For so long a better explanation may come before this is told.
  double hold_seconds = 0;
  // It is no cause of its own: it explains nothing, and is told alone only if nothing explains it.
  bool is_symptom = false;
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
