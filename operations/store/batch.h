// The data of one write to the store; it waits in memory until the store has written it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operations/runs/series.h"
#include "operations/vocabulary/incident.h"
#include "operations/vocabulary/known_process.h"

namespace stepwatch::operations {

// A line as it was observed. `number` orders the lines of all runs.
struct StoredLine {
  int64_t number = 0;
  std::string run;  // empty: of the observer itself, such as a step of its clock; kept for all runs
  double t = 0;
  std::string json;
  bool begins = false;  // a start or restart: earlier lines of the run are no longer needed
};

// A run in its present state. `summary` answers requests once the observer has forgotten the run.
struct StoredRun {
  std::string id;
  bool ended = false;
  double heard_t = 0;
  std::string summary;  // a JSON object
};

struct Acknowledgement {
  std::string by;
  std::string note;
  double t = 0;
};

// Suppresses notifications of matching incidents. Empty texts match all; `run` may contain * for any characters.
struct Silence {
  std::string id;
  std::string run;
  std::string kind;
  std::string by;
  std::string note;
  double created_t = 0;
  double until_t = 0;
};

// A change of an incident, or of its acknowledgement. Numbers rise by one for the life of the store.
struct StoredChange {
  int64_t number = 0;
  std::string what;  // opened, updated, resolved, acknowledged
  Incident incident;
  std::optional<Acknowledgement> acknowledgement;  // the one in force
};

// Points of a number of a run, from a step on: they replace the stored ones from there on.
struct StoredSeries {
  std::string run;
  std::string name;
  int64_t from_step = 0;
  std::vector<SeriesPoint> points;
};

class Batch {
 public:
  std::deque<StoredLine> lines;
  std::map<std::string, StoredRun> runs;  // the last state of each
  std::deque<StoredChange> changes;
  std::vector<Silence> silences;
  std::vector<std::string> silences_removed;
  std::vector<StoredSeries> series;
  std::map<std::string, std::optional<KnownProcess>> processes;  // by KeyOf; nullopt: remove it
  // Messages and their state by a key; nullopt: remove it. The text belongs to operations/delivery.
  std::map<std::string, std::optional<std::string>> deliveries;
  bool starts_deliveries_over = false;  // removes all stored ones first

  bool empty() const;
  size_t line_bytes() const { return line_bytes_; }
  void Add(StoredLine line);
  // Appends a later batch.
  void Append(Batch later);
  // Drops the oldest lines until at most this many bytes are left; returns the number dropped.
  int64_t DropLines(size_t bytes_max);
  // Keeps only the last change of each incident among the oldest, until at most this many are left; returns the number
  // dropped.
  int64_t FoldChanges(size_t count_max);
  // Drops the oldest changes beyond this number; returns the number dropped.
  int64_t DropChanges(size_t count_max);
  // Drops all messages if there are more than this number: their owner still has those that matter.
  void DropDeliveries(size_t count_max);

 private:
  size_t line_bytes_ = 0;
};

}  // namespace stepwatch::operations
