// Records the changes of incidents, stores them, and announces them once they are safe in the store.
//
// On the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operations/intake/incident_registry.h"
#include "operations/store/store_queue.h"
#include "operations/vocabulary/names.h"

namespace stepwatch::operations {

class Log;

class IncidentLedger {
 public:
  struct Callbacks {
    // A change that is stored next.
    std::function<void(const StoredChange& change)> on_change;
    // Changes are safe, or the store cannot be written.
    std::function<void()> on_safe;
  };
  using Then = std::function<void()>;
  using Opened = std::map<std::pair<IncidentKind, Severity>, int64_t>;

  // The store and the log must outlive it.
  IncidentLedger(StoreQueue* store, Log* log, Callbacks callbacks)
      : store_(*store), log_(*log), callbacks_(std::move(callbacks)) {}

  void Restore(const Restored& restored) { registry_.Restore(restored); }
  // The store may lack earlier data: adds all known data to the next batch. `t`: the present.
  void StoreAgain(double t);

  // Records and stores changes; `then` is called when they are safe.
  void Publish(const std::vector<Incident>& changes, Then then);
  // Resolves the open incidents of runs that are unknown by now.
  void ResolveForgotten(const std::function<bool(const std::string& run)>& is_known, double t);
  // False: unknown incident.
  bool Acknowledge(const std::string& incident, const Acknowledgement& acknowledgement, Then then);
  // False: there are too many.
  bool AddSilence(const Silence& silence, Then then);
  bool RemoveSilence(const std::string& id, Then then);

  IncidentRegistry& registry() { return registry_; }
  const IncidentRegistry& registry() const { return registry_; }
  // How many this process has opened, by kind and severity.
  const Opened& opened() const { return opened_; }

 private:
  void Store(StoredChange change);

  StoreQueue& store_;
  Log& log_;
  const Callbacks callbacks_;
  IncidentRegistry registry_;
  Opened opened_;
};

}  // namespace stepwatch::operations
