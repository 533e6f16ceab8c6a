// Keeps a silence for each run on nodes that the scheduler has in maintenance.
//
// On the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operations/daemon/daemon_settings.h"
#include "operations/daemon/incident_ledger.h"
#include "operations/incidents/observer.h"
#include "operations/maintenance/maintenance_watch.h"

namespace stepwatch::operations {

class MaintenanceSilences {
 public:
  struct Parts {
    std::function<double()> wall;
    const Observer* observer;
    IncidentLedger* ledger;
    Log* log;
  };

  // The parts must outlive it.
  MaintenanceSilences(boost::asio::io_context& loop, Parts parts) : loop_(loop), parts_(std::move(parts)) {}

  // Begins to watch, or continues with other settings.
  void Apply(const MaintenanceSettings& settings);
  void Stop() { watch_.reset(); }
  // Now and then: a window may begin, and a run may begin in it.
  void Tick();

 private:
  void Set(const Silence& silence);

  boost::asio::io_context& loop_;
  const Parts parts_;
  MaintenanceSettings settings_;
  std::unique_ptr<MaintenanceWatch> watch_;  // null: disabled
};

}  // namespace stepwatch::operations
