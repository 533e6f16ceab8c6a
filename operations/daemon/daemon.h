// Connects the parts of stepwatchd: opens the store and the intake, starts and stops the parts, and gives them new
// settings, data of the store, and time.
//
// Everything runs on the thread that runs `loop`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operations/daemon/clock_watch.h"
#include "operations/daemon/daemon_service.h"
#include "operations/daemon/daemon_settings.h"
#include "operations/daemon/incident_ledger.h"
#include "operations/daemon/line_keeper.h"
#include "operations/daemon/line_processor.h"
#include "operations/daemon/local_jobs.h"
#include "operations/daemon/loss_log.h"
#include "operations/daemon/machine_watch.h"
#include "operations/daemon/maintenance_silences.h"
#include "operations/daemon/metrics_output.h"
#include "operations/daemon/state_writer.h"
#include "operations/daemon/tick_timer.h"
#include "operations/daemon/turn_queue.h"
#include "operations/delivery/courier.h"
#include "operations/intake/server.h"
#include "operations/log_intake/log_intake.h"
#include "operations/store/store_queue.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class Log;

struct DaemonOptions {
  DaemonSettings settings;
  std::string state_directory;
  std::string socket;  // empty: see IntakeOptions
  std::string vfs;     // of SQLite, see StoreOptions
  std::function<ClockLook()> look_at_clocks = LookAtClocks;
  std::function<std::unique_ptr<delivery::Transport>()> make_transport = delivery::MakeCurlTransport;
};

class Daemon {
 public:
  // The log must outlive it.
  Daemon(boost::asio::io_context& loop, DaemonOptions options, Log* log);

  // Restores the data of the previous process, opens the intake, and begins to look for jobs.
  Status Start();
  // Stops looking, closes the intake and writes waiting data.
  void Stop();
  // Applies the settings that may change at run time; returns the names of those that need a restart, or an empty text.
  std::string Apply(const DaemonSettings& settings);

  const Intake& intake() const { return intake_; }

 private:
  double Wall() const { return options_.look_at_clocks().wall; }
  std::unique_ptr<StoreQueue> MakeStore();
  Status AwaitStore();
  IncidentLedger::Callbacks LedgerCallbacks();
  bool MayRunHere(const std::string& run) const;
  LocalJobs::Dependencies JobsDependencies();
  MachineWatch::Dependencies MachineDependencies();
  LogIntakeOptions OptionsOfLogs();
  LogRecords::Callbacks LogCallbacks();
  delivery::CourierOptions OptionsOfCourier();
  IntakeOptions OptionsOfIntake() const;
  void Restore(const Restored& restored);
  // The store may lack earlier data: writes all known data again.
  void StoreAgain();
  void StoreDeliveriesAgain();
  void Tick(int64_t number);
  void LookForLosses();
  // Removes the data of runs that are over, or that the observer has forgotten.
  void ForgetOld();
  // Processes a line just learnt on this machine.
  void TakeLine(Line line);

  boost::asio::io_context& loop_;
  Log& log_;
  DaemonOptions options_;
  bool is_started_ = false;
  bool is_restored_ = false;
  LossLog losses_;
  TurnQueue turns_;
  TickTimer tick_;
  std::unique_ptr<StoreQueue> store_;  // null after Stop; then no part is used
  LineKeeper keeper_;
  IncidentLedger ledger_;
  LineProcessor lines_;
  StateWriter state_;
  LocalJobs jobs_;
  MachineWatch machine_;
  MaintenanceSilences maintenance_;
  LogIntake logs_;
  MetricsOutput metrics_;
  DaemonService service_;
  delivery::Courier courier_;
  Intake intake_;
};

}  // namespace stepwatch::operations
