// Processes lines in their order: keeps each, shows it to the observer, and publishes the changes of incidents.
//
// Many lines are processed in pieces, one a turn of the loop. On the loop's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "operations/daemon/clock_watch.h"
#include "operations/daemon/daemon_settings.h"
#include "operations/daemon/known_until.h"
#include "operations/incidents/observer.h"
#include "operations/store/store_queue.h"
#include "operations/vocabulary/line.h"

namespace stepwatch::operations {

class IncidentLedger;
class LineKeeper;
class Log;
class StateWriter;
class TurnQueue;

class LineProcessor {
 public:
  struct Parts {
    LineKeeper* keeper;
    IncidentLedger* ledger;
    TurnQueue* turns;
    Log* log;
  };

  // The parts must outlive it.
  LineProcessor(const DaemonSettings& settings, std::function<ClockLook()> look_at_clocks, Parts parts);

  void Apply(const DaemonSettings& settings);
  // Begins to watch now. Without the store, its data is restored later.
  void Begin(bool has_store);
  // Learns the stored lines, and adopts open incidents. After Begin, it starts over with the lines that arrived since.
  void Restore(const Restored& restored, const StateWriter& state);

  // `then` is called when the incidents that the lines opened are safe in the store.
  void Take(std::vector<Line> lines, std::function<void()> then);
  // Processes all waiting lines now.
  void Finish();
  // Advances time to now. Returns now.
  double Advance();
  // Forgets the last times of ranks whose runs are over.
  void ForgetOld();

  const Observer& observer() const { return observer_; }
  // For lines that a control socket repeats.
  KnownUntil& known_until() { return known_until_; }
  size_t waiting() const { return waiting_; }
  int64_t taken() const { return taken_; }

 private:
  struct Taking {
    std::vector<Line> lines;
    size_t taken = 0;
    std::function<void()> then;
    std::vector<Incident> changes = {};
  };

  // Until the time is over.
  void TakeSome(std::chrono::steady_clock::time_point until);
  void Observe(Line line, std::vector<Incident>* changes);
  // Records jumps of the clock, too.
  double PassTime(std::vector<Incident>* changes);
  // Lines arrive of a run that the observer does not know: its open incidents stay open.
  void AdoptOf(const std::string& run);

  const std::function<ClockLook()> look_at_clocks_;
  LineKeeper& keeper_;
  IncidentLedger& ledger_;
  TurnQueue& turns_;
  Log& log_;
  Settings settings_;
  double peak_flops_ = 0;
  Observer observer_;
  ClockWatch clock_;
  KnownUntil known_until_;
  std::deque<Taking> taking_;
  size_t waiting_ = 0;
  int64_t taken_ = 0;
  bool has_begun_ = false;
  int64_t begun_number_ = 0;  // the number before the first line of this process, if it has begun without the store
};

}  // namespace stepwatch::operations
