// The incidents of stepwatchd: the last state of each, with its acknowledgement, the silences of users, and the newest
// changes in order, for followers of the event stream.
//
// Memory is bounded: all open incidents, kResolvedMax others, kEventsMax changes, kSilencesMax silences. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/store/store.h"

namespace stepwatch::operations {

class IncidentRegistry {
 public:
  static constexpr size_t kResolvedMax = 2000;
  static constexpr size_t kEventsMax = 1000;
  static constexpr size_t kSilencesMax = 1000;

  struct Query {
    bool open_only = true;
    std::string run;  // empty: all
    size_t limit = 100;
  };
  struct EventPage {
    std::vector<StoredChange> changes;
    bool misses_some = false;  // changes after the named one are no longer kept
  };

  // Restores the data of the previous process.
  void Restore(const Restored& restored);

  // Records a change, and returns it with its number, as it is to be stored.
  StoredChange Change(const Incident& incident);
  // Empty if the incident is unknown.
  std::optional<StoredChange> Acknowledge(std::string_view id, const Acknowledgement& acknowledgement);

  // `number` is that of the last change.
  const StoredIncident* Find(std::string_view id) const;
  // The one that changed last first.
  std::vector<StoredIncident> List(const Query& query) const;
  std::vector<StoredIncident> Open() const;
  // All kept data, as changes in their order: the last one of each incident, and those that followers may request.
  std::vector<StoredChange> All() const;
  EventPage After(int64_t number, size_t count) const;
  int64_t number_last() const { return number_last_; }

  // False: there are too many.
  bool Add(const Silence& silence);
  bool RemoveSilence(std::string_view id);
  // The silences in force at `t`; forgets the others.
  std::vector<Silence> Silences(double t);
  // The one that matches first; null if none does.
  const Silence* SilenceOf(const Incident& incident, double t) const;

 private:
  StoredChange Note(std::string what, const StoredIncident& incident);
  void ForgetSome();

  std::map<std::string, StoredIncident, std::less<>> incidents_;
  std::deque<StoredChange> events_;
  std::vector<Silence> silences_;
  int64_t number_last_ = 0;
  int64_t number_forgotten_ = 0;  // of the newest change that is not in events_
};

// Returns whether the text matches the pattern, in which * stands for any characters; an empty pattern matches all.
bool Matches(std::string_view pattern, std::string_view text);

}  // namespace stepwatch::operations
