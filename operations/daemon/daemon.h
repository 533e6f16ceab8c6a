// Connects the parts of stepwatchd: observes incoming lines, stores them and sends them on; stores changes of
// incidents, and publishes them once they are safe.
//
// Everything runs on the thread that runs `loop`.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/watch/timer.h"
#include "operations/daemon/clock_watch.h"
#include "operations/daemon/daemon_settings.h"
#include "operations/daemon/known_until.h"
#include "operations/daemon/otlp_sender.h"
#include "operations/daemon/state_writer.h"
#include "operations/daemon/upstream.h"
#include "operations/delivery/courier.h"
#include "operations/discovery/discovery.h"
#include "operations/gpu/gpu_watch.h"
#include "operations/host/host_watch.h"
#include "operations/incidents/observer.h"
#include "operations/intake/server.h"
#include "operations/intake/service.h"
#include "operations/logs/outputs/outputs.h"
#include "operations/metrics/drop_directory.h"
#include "operations/metrics/metric_family.h"
#include "operations/metrics/scrape_targets.h"
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

class Daemon final : public Service {
 public:
  // The log must outlive it.
  Daemon(boost::asio::io_context& loop, DaemonOptions options, Log* log);
  ~Daemon() override;

  // Opens the store, restores the data of the previous process, opens the intake, and begins to look for jobs.
  Status Start();
  // Stops looking, closes the intake and writes waiting data.
  void Stop();
  // Applies the settings that may change at run time; returns the names of those that need a restart, or an empty text.
  std::string Apply(const DaemonSettings& settings);
  // Processes a line just learnt on this machine.
  void TakeLine(Line line);

  void Later(std::function<void()> work) override;
  double t() const override { return options_.look_at_clocks().wall; }
  void Take(std::vector<Line> lines, std::function<void()> then) override;
  bool IsBehind() const override { return loop_delay_ > kBehindSeconds || lines_waiting_ > kLinesWaitingMax; }
  void CountRefused(int64_t lines) override { lines_refused_ += lines; }
  void CountLeftOut() override;
  std::vector<RunSnapshot> Runs() const override { return observer_.Runs(); }
  std::optional<RunSnapshot> Run(std::string_view id) const override { return observer_.Run(id); }
  std::vector<std::string> RunsOfStore() const override { return state_->Summaries(); }
  std::optional<std::string> RunOfStore(std::string_view id) const override { return state_->Summary(id); }
  void SeriesNames(const std::string& run, std::function<void(std::vector<std::string>)> then) override;
  void SeriesOf(const std::string& run, const std::string& name,
                std::function<void(std::vector<SeriesPoint>)> then) override;
  IncidentRegistry& incidents() override { return incidents_; }
  void ChangesOf(const std::string& incident, std::function<void(std::vector<StoredChange>)> then) override;
  bool Acknowledge(const std::string& incident, const Acknowledgement& acknowledgement,
                   std::function<void()> then) override;
  bool AddSilence(const Silence& silence, std::function<void()> then) override;
  bool RemoveSilence(const std::string& id, std::function<void()> then) override;
  Deliveries* deliveries() override { return courier_.get(); }
  DaemonCounts Counts() const override;
  Status Ready() const override;
  void Targets(bool with_own, bool with_jobs, std::function<void(std::string json)> then) override;
  void OtherMetrics(http::MetricsFormat format, std::function<void(std::string page)> then) override;

  const Intake& intake() const { return intake_; }

 private:
  static constexpr double kBehindSeconds = 5;
  static constexpr size_t kLinesWaitingMax = 200000;

  // Lines in processing.
  struct Taking {
    std::vector<Line> lines;
    size_t taken = 0;
    std::function<void()> then;
    std::vector<Incident> changes = {};
  };

  Status OpenStore();
  Status OpenUpstream();
  void ApplyUpstream();
  void StartDelivery();
  void StoreDeliveriesAgain();
  void StartDiscovery();
  void ApplyDiscovery();
  // Stops if the settings name another source.
  void StartGpus();
  void StartHost();
  void ApplyMetrics();
  void ApplyOtlp();
  void ApplyLogOutputs();
  // Metrics of the hardware of this machine.
  void AddMachineMetrics(http::MetricsPage* page) const;
  void TickMetrics(double now);
  // Lines from `begun_number` on are of this process; 0: none yet.
  void Restore(const Restored& restored, int64_t begun_number);
  void RestoreLate(const Restored& restored);
  // The store may lack earlier data: writes all known data again.
  void StoreAgain();
  void AwaitTick();
  void Tick();
  static Settings SettingsOfObserver(Settings chosen);
  // Advances time to now and records jumps of the clock. Returns now.
  double PassTime(std::vector<Incident>* changes);
  void Observe(Line line, std::vector<Incident>* changes);
  void DoNext();
  // Processes waiting lines, until `until` is over.
  void TakeSome(std::chrono::steady_clock::time_point until);
  void Keep(const Line& line, bool is_ours);
  // Data was dropped because a limit was reached: the first time of each kind is logged, each time is counted in the
  // metrics.
  void LogLoss(const std::string& what);
  void LookForLosses();
  // The metrics that stepwatchd itself has, apart from its counts.
  std::vector<MetricFamily> Families() const;
  // Records and stores changes; `then` is called when they are safe.
  void Publish(const std::vector<Incident>& changes, std::function<void()> then);
  // Removes the data of runs that are over, or that the observer has forgotten.
  void ForgetOld();
  // Resolves open incidents of runs that are unknown by now.
  void ResolveForgotten();
  // Lines arrive of a run that the observer does not know: its open incidents stay open.
  void AdoptOf(const std::string& run);

  boost::asio::io_context& loop_;
  Log& log_;
  DaemonOptions options_;
  Observer observer_;
  IncidentRegistry incidents_;
  ClockWatch clock_;
  std::unique_ptr<StoreQueue> store_;
  std::optional<StateWriter> state_;      // with the store
  std::unique_ptr<Upstream> upstream_;    // null without an upstream
  std::unique_ptr<Discovery> discovery_;  // null: it is disabled
  std::unique_ptr<GpuWatch> gpus_;        // null: another program samples them
  std::unique_ptr<HostWatch> host_;
  std::optional<DropDirectory> drop_;        // nullopt: it is disabled
  std::optional<TargetsFile> targets_file_;  // likewise
  std::optional<OtlpSender> otlp_;           // likewise
  std::optional<outputs::Outputs> log_outputs_;
  std::unique_ptr<delivery::Courier> courier_;
  Intake intake_;
  watch::Timer tick_;

  KnownUntil known_until_;
  int64_t number_ = 0;        // of the last line
  int64_t begun_number_ = 0;  // the number before the first line of this process, if it has begun without the store
  bool is_started_ = false;
  bool is_restored_ = false;
  std::deque<std::function<void()>> later_;
  std::deque<Taking> taking_;
  size_t lines_waiting_ = 0;
  int64_t ticks_ = 0;
  int64_t lines_taken_ = 0;
  int64_t lines_refused_ = 0;
  int64_t requests_left_out_ = 0;
  std::map<std::pair<IncidentKind, Severity>, int64_t> incidents_opened_;
  std::set<std::string> losses_logged_;
  double loop_delay_ = 0;
  double loop_delay_max_ = 0;
  double started_ = 0;
  double due_ = 0;
  std::string store_trouble_;
};

}  // namespace stepwatch::operations
