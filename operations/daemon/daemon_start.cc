// Start, stop and new settings of the daemon.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "operations/daemon/daemon.h"
#include "operations/daemon/log.h"
#include "operations/discovery/pulse_source.h"
#include "operations/trace/parse_line.h"
#include "src/base/file.h"
#include "src/sockets/runtime_directory.h"

namespace stepwatch::operations {
namespace {

StoreLimits LimitsOf(const StoreSettings& settings) {
  StoreLimits limits;
  limits.line_seconds = 60.0 * static_cast<double>(settings.lines_minutes);
  limits.line_bytes = settings.lines_mib << 20;
  limits.bytes = settings.mib << 20;
  limits.ended_seconds = 86400.0 * static_cast<double>(settings.ended_days);
  return limits;
}

// The beats that a job has kept show the duration of its steps. Older beats are processed as of this time: replaying a
// month of them would take seconds.
constexpr double kPastSeconds = 600;

IntakeOptions IntakeOptionsOf(const DaemonOptions& options, Log* log) {
  IntakeOptions intake;
  intake.socket = options.socket;
  intake.readers = options.settings.listen.readers;
  intake.tcp = {options.settings.listen.tcp, options.settings.listen.token_file, options.settings.listen.name};
  intake.on_note = [log](const std::string& note) { log->Write(LogLevel::kInfo, note); };
  return intake;
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// The runs of these lines; if there are more than are watched, those with the newest lines.
std::set<std::string> NewestRuns(const std::vector<StoredLine>& lines) {
  std::map<std::string, int64_t> last;
  for (const StoredLine& line : lines) last[line.run] = line.number;
  std::vector<std::pair<int64_t, std::string>> by_age;
  for (const auto& [run, number] : last) by_age.emplace_back(number, run);
  const auto newest = by_age.end() - static_cast<std::ptrdiff_t>(std::min(kRunsMax, by_age.size()));
  std::nth_element(by_age.begin(), newest, by_age.end());
  std::set<std::string> runs{""};  // of the observer itself
  for (auto each = newest; each != by_age.end(); ++each) runs.insert(std::move(each->second));
  return runs;
}

}  // namespace

Daemon::Daemon(boost::asio::io_context& loop, DaemonOptions options, Log* log)
    : loop_(loop),
      log_(*log),
      options_(std::move(options)),
      observer_(SettingsOfObserver(options_.settings.detectors)),
      intake_(loop, IntakeOptionsOf(options_, log), this),
      tick_(loop) {}

Daemon::~Daemon() = default;

// The store may take long to open, or never open: then watching begins without it.
Status Daemon::OpenStore() {
  constexpr std::chrono::milliseconds kAwaited{1200};
  StoreQueue::Callbacks callbacks;
  callbacks.on_trouble = [this](const std::string& why) {
    store_trouble_ = why;
    if (is_started_)
      log_.Write(LogLevel::kError, why + "; unstored data waits in memory, and the store is retried every second");
  };
  callbacks.on_recovery = [this] {
    store_trouble_.clear();
    WriteAllSeries();
    log_.Write(LogLevel::kInfo, "the store is available again: the waiting data is written");
  };
  callbacks.on_note = [this](const std::string& note) { log_.Write(LogLevel::kError, note); };
  callbacks.on_restored = [this](const Restored& restored) {
    if (is_started_) return RestoreLate(restored);
    is_restored_ = true;
    Restore(restored, 0);
  };
  callbacks.on_renewal = [this] { StoreAgain(); };
  store_ = std::make_unique<StoreQueue>(
      loop_, StoreOptions{base::JoinPath(options_.state_directory, "stepwatchd.db"), options_.vfs},
      LimitsOf(options_.settings.store), std::move(callbacks));
  if (Status status = store_->AwaitOpen(kAwaited); !status.ok()) return status;
  is_started_ = true;
  const ClockLook look = options_.look_at_clocks();
  (void)clock_.Look(look);
  observer_.SetEarliest(look.wall - kPastSeconds);
  if (is_restored_) return Status();
  // No number from a store that opens later is this large.
  number_ = begun_number_ = static_cast<int64_t>(look.wall * 1000);
  Restored none;
  none.number_last = number_;
  incidents_.Restore(none);
  log_.Write(LogLevel::kError, store_trouble_ + "; watching starts without the stored data");
  return Status();
}

Status Daemon::Start() {
  started_ = options_.look_at_clocks().running;
  if (Status status = OpenStore(); !status.ok()) return status;
  if (Status status = OpenUpstream(); !status.ok()) return status;
  if (Status status = intake_.Open(); !status.ok()) return status;
  if (options_.settings.discovery.enabled) StartDiscovery();
  due_ = started_;
  AwaitTick();
  return Status();
}

Status Daemon::OpenUpstream() {
  const UpstreamSettings& settings = options_.settings.upstream;
  if (settings.url.empty()) return Status();
  const Result<UpstreamAddress> address = ParseUpstream(settings.url);
  if (!address.ok()) return address.status();
  UpstreamOptions options;
  options.target = {address.value(), settings.token_file, settings.spool_mib << 20};
  options.directory = base::JoinPath(options_.state_directory, "upstream");
  options.wall = [look = options_.look_at_clocks] { return look().wall; };
  options.on_trouble = [this](const std::string& why) {
    log_.Write(LogLevel::kWarning,
               "cannot send lines to the upstream: " + why + "; they wait on disk and are sent later");
  };
  options.on_loss = [this](const std::string& why) { LogLoss("upstream: " + why); };
  options.on_recovery = [this] { log_.Write(LogLevel::kInfo, "the upstream accepts lines again"); };
  upstream_ = std::make_unique<Upstream>(loop_, std::move(options));
  return Status();
}

void Daemon::StartDiscovery() {
  DiscoveryOptions options;
  options.named = options_.settings.discovery.directories;
  if (options.named.empty()) options.directories = sockets::RuntimeDirectories(::geteuid());
  options.host = HostName();
  Discovery::Dependencies dependencies;
  dependencies.open_pulse = OpenSocketPulse;
  dependencies.now = [look = options_.look_at_clocks] { return look().wall; };
  dependencies.known_until = [this](const std::string& run, int64_t rank) { return known_until_.Until(run, rank); };
  dependencies.on_left_out = [this](const std::string& why) { LogLoss(why); };
  const auto take = [this](Line line) { TakeLine(std::move(line)); };
  discovery_ = std::make_unique<Discovery>(loop_, std::move(options), take, std::move(dependencies));
  std::vector<KnownProcess> known;
  for (const auto& [key, process] : processes_) known.push_back(process);
  discovery_->Remember(known);
  discovery_->Start();
}

// Known processes, and the time of each rank's last line, stay.
void Daemon::ApplyDiscovery() {
  if (discovery_) {
    for (const KnownProcess& each : discovery_->Processes()) known_until_.Note(each.run, each.rank, each.reported_t);
    StoreProcesses();
    discovery_->Stop();
    discovery_.reset();
  }
  if (options_.settings.discovery.enabled) StartDiscovery();
}

void Daemon::Restore(const Restored& restored, int64_t begun_number) {
  incidents_.Restore(restored);
  number_ = std::max(number_, restored.number_last);
  for (const StoredRun& run : restored.runs) ended_[run.id] = run;
  const std::set<std::string> newest = NewestRuns(restored.lines);
  // A run that ended long ago has no lines left, and must not begin again because an incident of it is open.
  for (const StoredIncident& each : restored.incidents)
    if (each.incident.state != IncidentState::kResolved &&
        (newest.contains(each.incident.run) || !ended_.contains(each.incident.run)))
      observer_.Adopt(each.incident);
  // The time between the data of the previous process and that of this one was not watched: the silence is that of
  // stepwatchd.
  bool has_gap = false;
  const auto add_gap = [&](double t) {
    if (std::exchange(has_gap, true)) return;
    const Line gap{t, "", std::nullopt, Event(ClockStepEvent{t - observer_.t()})};
    observer_.Learn(gap);
    if (begun_number == 0) Keep(gap, true);
  };
  for (const StoredLine& stored : restored.lines) {
    if (!newest.contains(stored.run)) continue;
    Result<Line> line = ParseLine(stored.json);
    if (!line.ok()) continue;
    if (stored.run.empty()) line.value().run.clear();
    if (const std::optional<int64_t> rank = line.value().rank)
      known_until_.Note(line.value().run, *rank, line.value().t);
    if (begun_number > 0 && stored.number >= begun_number) add_gap(line.value().t);
    observer_.Learn(line.value());
  }
  observer_.EndLearning();
  for (const KnownProcess& each : restored.processes) processes_.try_emplace(KeyOf(each), each);
  if (!restored.lines.empty()) add_gap(options_.look_at_clocks().wall);
}

// As after a kill at this moment: data of the store, and data that waited for it.
void Daemon::RestoreLate(const Restored& restored) {
  log_.Write(LogLevel::kInfo, "the store is available: its data is restored");
  observer_ = Observer(SettingsOfObserver(options_.settings.detectors));
  Restore(restored, begun_number_);
  observer_.SetEarliest(t() - kPastSeconds);
  marks_.clear();
  WriteAllSeries();
  if (!discovery_) return;
  std::vector<KnownProcess> seen = discovery_->Processes();
  std::vector<KnownProcess> unseen;
  for (const KnownProcess& each : restored.processes)
    if (std::none_of(seen.begin(), seen.end(), [&](const auto& other) { return KeyOf(other) == KeyOf(each); }))
      unseen.push_back(each);
  discovery_->Remember(unseen);
}

void Daemon::Stop() {
  if (discovery_) discovery_->Stop();  // it still returns the known processes
  TakeSome(std::chrono::steady_clock::time_point::max());
  intake_.Close();
  tick_.Cancel();
  upstream_.reset();
  if (!store_) return;
  StoreRuns(observer_.Runs().size());
  StoreSeries(series_due_.size());
  FindSeries();
  StoreSeries(series_due_.size());
  StoreProcesses();
  store_.reset();
}

std::string Daemon::Apply(const DaemonSettings& settings) {
  const DaemonSettings before = std::exchange(options_.settings, settings);
  store_->SetLimits(LimitsOf(settings.store));
  if (settings.listen.tcp != before.listen.tcp || settings.listen.token_file != before.listen.token_file ||
      settings.listen.name != before.listen.name)
    intake_.SetTcp({settings.listen.tcp, settings.listen.token_file, settings.listen.name});
  if (!(settings.detectors == before.detectors)) observer_.Apply(SettingsOfObserver(settings.detectors));
  if (!(settings.upstream == before.upstream)) ApplyUpstream();
  if (!(settings.discovery == before.discovery)) ApplyDiscovery();
  return settings.listen.readers != before.listen.readers ? " listen.readers" : "";
}

void Daemon::ApplyUpstream() {
  const UpstreamSettings& settings = options_.settings.upstream;
  if (settings.url.empty()) return upstream_.reset();
  if (!upstream_) {
    if (const Status opened = OpenUpstream(); !opened.ok()) log_.Write(LogLevel::kError, opened.message());
    return;
  }
  const Result<UpstreamAddress> address = ParseUpstream(settings.url);
  if (!address.ok())
    return log_.Write(LogLevel::kError, address.status().message() + "; lines are still sent to the previous upstream");
  upstream_->SetTarget({address.value(), settings.token_file, settings.spool_mib << 20});
}

}  // namespace stepwatch::operations
