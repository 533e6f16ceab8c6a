// The records of logs that stepwatchd keeps for questions, by run: warnings and worse ones, anomalies and exceptions.
// Pure.
//
// Bounded in bytes, for each run and in all. Records make room in the order of their severity, then of their age; each
// severity keeps a quarter of the room of its run, so that a flood of one cannot remove all of another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "src/logs/record.h"

namespace stepwatch::operations {

class LogEvents {
 public:
  struct Limits {
    size_t run_bytes = size_t{1} << 20;
    size_t bytes = size_t{32} << 20;
    size_t runs = 1024;
  };
  using Events = std::vector<std::shared_ptr<const logs::Record>>;

  explicit LogEvents(Limits limits) : limits_(limits) {}
  LogEvents() : LogEvents(Limits{}) {}

  // Keeps the record if it is worth it and, by its id, not kept yet. An empty `run`: of the machine. `rank`: of a
  // record that names none.
  void Add(const std::string& run, const logs::Record& record, std::optional<int64_t> rank = std::nullopt);
  // In the order of their times.
  Events Of(std::string_view run) const;
  bool Has(std::string_view run) const { return runs_.find(run) != runs_.end(); }
  void Forget(const std::string& run) { Remove(runs_.find(run)); }

  size_t bytes() const { return bytes_; }
  // Records that had to make room.
  int64_t dropped() const { return dropped_; }

 private:
  static constexpr size_t kSeverities = 3;  // warnings and lower; errors; what may be a cause

  struct Kept {
    std::shared_ptr<const logs::Record> record;
    size_t bytes = 0;
  };
  struct Severity {
    std::deque<Kept> events;  // in the order of their arrival
    size_t bytes = 0;
  };
  struct Run {
    std::array<Severity, kSeverities> severities;
    std::unordered_set<std::string_view> ids;  // texts of the records
    size_t bytes = 0;
    double last_t = 0;
  };
  using Runs = std::map<std::string, Run, std::less<>>;

  static size_t SeverityOf(const logs::Record& record);
  void MakeRoomForRun();
  // Removes the least important record of the run.
  void DropOne(Run* run);
  void Remove(Runs::iterator run);

  const Limits limits_;
  Runs runs_;
  size_t bytes_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace stepwatch::operations
