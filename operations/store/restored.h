// The data of the previous process that a new one restores.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operations/store/batch.h"
#include "src/database/database.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// The largest number of a line or change. A larger one is damaged, and counting on from it would overflow.
inline constexpr int64_t kStoredNumberMax = int64_t{1} << 53;

struct StoredIncident {
  int64_t number = 0;  // of its last change
  Incident incident;
  std::optional<Acknowledgement> acknowledgement;
};

struct Restored {
  static constexpr int64_t kIncidentsMax = 2000;
  static constexpr int64_t kChangesMax = 1000;
  static constexpr int64_t kRunsMax = 1000;
  static constexpr int64_t kDeliveriesMax = 100000;

  std::vector<StoredIncident> incidents;  // all open ones, and the newest of the others; the oldest change first
  std::vector<StoredChange> changes;      // the newest, the oldest first
  std::vector<StoredLine> lines;          // of open runs, in the order in which they were observed
  std::vector<StoredRun> runs;            // that have ended, the one with the newest line first
  std::vector<Silence> silences;
  std::vector<KnownProcess> processes;
  std::map<std::string, std::string> deliveries;  // see Batch
  std::map<std::string, int64_t> counted_until;   // of open runs: the furthest step, see TimeAccount
  int64_t number_last = 0;                        // of lines and changes
  double t_last = 0;                              // of the last line; 0 without lines
  bool lacks_some = false;  // the previous process ended while it could not write: it may have sent more than is here
  // Incidents and changes whose text is damaged, as statements that delete them.
  std::vector<std::string> unreadable;

  // Adds all data that was written since it was read.
  void Append(const Batch& later);
};

Result<Restored> ReadRestored(database::Database* database);
// Every change of an incident, the oldest first; empty if the incident is unknown.
Result<std::vector<StoredChange>> ReadChanges(database::Database* database, const std::string& incident);

}  // namespace stepwatch::operations
