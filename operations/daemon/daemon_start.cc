// How the daemon begins, ends, and takes over other settings.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "controller/door/runtime_directory.h"
#include "operations/daemon/daemon.h"
#include "operations/daemon/log.h"
#include "operations/discovery/door_pulse.h"
#include "operations/trace/parse_line.h"
#include "src/base/file.h"

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

IntakeOptions IntakeOptionsOf(const DaemonOptions& options) {
  IntakeOptions intake;
  intake.socket = options.socket;
  intake.readers = options.settings.listen.readers;
  intake.tcp = {options.settings.listen.tcp, options.settings.listen.token_file, options.settings.listen.name};
  intake.on_note = [](const std::string& note) { Log(LogLevel::kInfo, note); };
  return intake;
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

Daemon::Daemon(boost::asio::io_context& loop, DaemonOptions options)
    : loop_(loop),
      options_(std::move(options)),
      observer_(SettingsOfObserver(options_.settings.detectors)),
      intake_(loop, IntakeOptionsOf(options_), this),
      tick_(loop) {}

Daemon::~Daemon() = default;

Status Daemon::OpenStore() {
  const std::string path = base::JoinPath(options_.state_directory, "stepwatchd.db");
  auto opened = Store::Open({path, options_.vfs});
  if (!opened.ok() && opened.status().code() == StatusCode::kInvalid) {
    // Notices are worth more than what was noticed: it goes on, and the file is kept for whoever can read it.
    const std::string aside = path + ".damaged";
    Log(LogLevel::kError, opened.status().message() + "; it is moved to " + aside + ", and a new one begins");
    base::FileSystem& files = base::FileSystem::Real();
    (void)files.Rename(path.c_str(), aside.c_str());
    for (const char* beside : {"-wal", "-shm"}) (void)files.Unlink((path + beside).c_str());
    opened = Store::Open({path, options_.vfs});
  }
  if (!opened.ok()) return opened.status();
  Result<Restored> restored = opened.value()->Load();
  if (!restored.ok()) return restored.status();
  store_ = std::make_unique<StoreQueue>(
      loop_, std::move(opened).value(), LimitsOf(options_.settings.store),
      StoreQueue::Callbacks{[this](const std::string& why) {
                              store_trouble_ = why;
                              Log(LogLevel::kError, why +
                                                        "; what it has not taken waits in memory, and it is tried "
                                                        "again every second");
                            },
                            [this] {
                              store_trouble_.clear();
                              series_marks_.clear();
                              for (auto& [run, mark] : marks_) mark = RunMark();
                              Log(LogLevel::kInfo, "the store takes what waited");
                            }});
  Restore(restored.value());
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
  options.on_trouble = [](const std::string& why) {
    Log(LogLevel::kWarning, "the upstream takes nothing: " + why + "; lines wait on disk, and it is tried again");
  };
  options.on_recovery = [] { Log(LogLevel::kInfo, "the upstream takes lines again"); };
  upstream_ = std::make_unique<Upstream>(loop_, std::move(options));
  return Status();
}

void Daemon::StartDiscovery() {
  DiscoveryOptions options;
  options.named = options_.settings.discovery.directories;
  if (options.named.empty()) options.directories = door::RuntimeDirectories(::geteuid());
  options.host = HostName();
  Discovery::Surroundings surroundings;
  surroundings.open_pulse = OpenDoorPulse;
  surroundings.now = [look = options_.look_at_clocks] { return look().wall; };
  surroundings.known_until = [this](const std::string& run, int64_t rank) { return heard_before_.Until(run, rank); };
  const auto tell = [this](Line line) { TakeLine(std::move(line)); };
  discovery_ = std::make_unique<Discovery>(loop_, std::move(options), tell, std::move(surroundings));
  std::vector<KnownProcess> known;
  for (const auto& [key, process] : processes_) known.push_back(process);
  discovery_->Remember(known);
  discovery_->Start();
}

// What is known of processes, and how far each was heard, goes on.
void Daemon::ApplyDiscovery() {
  if (discovery_) {
    for (const KnownProcess& each : discovery_->Processes()) heard_before_.Note(each.run, each.rank, each.told_t);
    StoreProcesses();
    discovery_->Stop();
    discovery_.reset();
  }
  if (options_.settings.discovery.enabled) StartDiscovery();
}

void Daemon::Restore(const Restored& restored) {
  book_.Restore(restored);
  number_ = restored.number_last;
  for (const StoredRun& run : restored.runs) ended_[run.id] = run;
  std::set<std::string> told;
  for (const StoredLine& line : restored.lines) told.insert(line.run);
  // A run that ended long ago has no lines any more, and does not begin again because something of it is open.
  for (const StoredIncident& each : restored.incidents)
    if (each.incident.state != IncidentState::kResolved &&
        (told.contains(each.incident.run) || !ended_.contains(each.incident.run)))
      observer_.Adopt(each.incident);
  for (const StoredLine& stored : restored.lines) {
    Result<Line> line = ParseLine(stored.json);
    if (!line.ok()) continue;
    if (stored.run.empty()) line.value().run.clear();
    if (const std::optional<int64_t> rank = line.value().rank)
      heard_before_.Note(line.value().run, *rank, line.value().t);
    (void)observer_.Observe(line.value());
  }
  for (const KnownProcess& each : restored.processes) processes_[KeyOf(each)] = each;
  const ClockLook look = options_.look_at_clocks();
  (void)clock_.Look(look);
  if (restored.lines.empty()) return;
  // Nobody was watched meanwhile: that silence is ours.
  const Line gap{look.wall, "", std::nullopt, Event(ClockStepEvent{look.wall - observer_.t()})};
  (void)observer_.Observe(gap);
  Keep(gap, true);
}

void Daemon::Stop() {
  if (discovery_) discovery_->Stop();  // it still says which processes it knew
  intake_.Close();
  tick_.Cancel();
  upstream_.reset();
  if (!store_) return;
  StoreRuns();
  StoreSeries();
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
    if (const Status opened = OpenUpstream(); !opened.ok()) Log(LogLevel::kError, opened.message());
    return;
  }
  const Result<UpstreamAddress> address = ParseUpstream(settings.url);
  if (!address.ok()) return Log(LogLevel::kError, address.status().message() + "; lines go where they went");
  upstream_->SetTarget({address.value(), settings.token_file, settings.spool_mib << 20});
}

}  // namespace stepwatch::operations
