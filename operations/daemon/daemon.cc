#include "operations/daemon/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "operations/daemon/log.h"
#include "operations/daemon/notify_service.h"
#include "operations/discovery/pulse_source.h"
#include "operations/intake/json_answers.h"
#include "operations/metrics/merge_expositions.h"
#include "operations/metrics/otlp_metrics.h"
#include "operations/metrics/run_families.h"
#include "operations/runs/run_totals.h"
#include "operations/trace/parse_line.h"
#include "operations/trace/write_line.h"
#include "src/base/file.h"
#include "src/http/metrics_page.h"
#include "src/sockets/runtime_directory.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::milliseconds kTick{250};
constexpr std::chrono::milliseconds kTurn{5};
constexpr int64_t kTicksOfSecond = 4;
// Thousands of changed runs, such as at the start, are written over some seconds.
constexpr size_t kRunsAtOnce = 200, kSeriesRunsAtOnce = 100;
constexpr int64_t kTicksOfSeries = 10 * kTicksOfSecond;
constexpr int64_t kTicksOfMinute = 60 * kTicksOfSecond;
// Beats are requested once a second, and each has the time of its step. An observer ahead of these times would see many
// steps at one moment.
constexpr double kHeardWithinSeconds = 1;
// A trace contains no line without a run.
constexpr const char* kNoRun = "-";

// Stacks are needed before the processes are killed.
bool WantsStacks(const Incident& change) {
  return change.kind == IncidentKind::kStuck && change.state == IncidentState::kOpened;
}

bool Begins(const Line& line) {
  const auto* event = std::get_if<Event>(&line.what);
  return event != nullptr &&
         (std::holds_alternative<StartEvent>(*event) || std::holds_alternative<RestartEvent>(*event));
}

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

// Reads on the thread of the store. Without an answer, or with an error, `then` gets an empty value.
template <class Value, class Read, class Then>
void ReadStore(StoreQueue* queue, Read read, Then then) {
  const auto ask = [read = std::move(read), then](Store& store) -> StoreQueue::Answer {
    Result<Value> result = read(store);
    return [then, value = result.ok() ? std::move(result).value() : Value()] { then(value); };
  };
  queue->Ask(ask, [then] { then({}); });
}

}  // namespace

// --- start, stop, new settings ---

Daemon::Daemon(boost::asio::io_context& loop, DaemonOptions options, Log* log)
    : loop_(loop),
      log_(*log),
      options_(std::move(options)),
      observer_(SettingsOfObserver(options_.settings.detectors)),
      intake_(loop, IntakeOptionsOf(options_, log), this),
      tick_(loop) {
  StartDelivery();
}

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
    state_->StoreAllSeries();
    StoreDeliveriesAgain();
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
  state_.emplace(&observer_, store_.get(), &log_);
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
  StartGpus();
  StartHost();
  ApplyMetrics();
  ApplyOtlp();
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

void Daemon::StartDelivery() {
  delivery::CourierOptions options;
  options.state_directory = options_.state_directory;
  options.now = [look = options_.look_at_clocks] {
    const ClockLook seen = look();
    return delivery::Moment{seen.wall, seen.running};
  };
  options.dice = [dice = std::minstd_rand(std::random_device{}())]() mutable {
    return std::uniform_real_distribution<double>()(dice);
  };
  options.make_transport = options_.make_transport;
  options.store = [this](delivery::Rows rows) {
    if (!store_) return;
    for (auto& [key, text] : rows) store_->next().deliveries.insert_or_assign(key, std::move(text));
  };
  options.flush = [this](std::function<void()> then) {
    if (store_) store_->Flush(std::move(then));
  };
  options.log = [this](bool is_trouble, const std::string& text) {
    log_.Write(is_trouble ? LogLevel::kWarning : LogLevel::kInfo, text);
  };
  courier_ = std::make_unique<delivery::Courier>(loop_, std::move(options), this);
  courier_->Apply(options_.settings.delivery, options_.settings.listen.public_url);
}

void Daemon::StoreDeliveriesAgain() {
  store_->next().starts_deliveries_over = true;
  store_->next().deliveries.clear();
  courier_->StoreAgain();
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
  discovery_->Remember(state_->Processes());
  discovery_->Start();
}

void Daemon::StartGpus() {
  gpus_.reset();
  if (options_.settings.gpu.source != "nvml") return;
  GpuWatch::Options options;
  options.wall = [look = options_.look_at_clocks] { return look().wall; };
  options.processes = [this] { return discovery_ ? discovery_->Processes() : std::vector<KnownProcess>(); };
  options.report = [this](Line line) { TakeLine(std::move(line)); };
  options.on_note = [this](const std::string& note) { log_.Write(LogLevel::kInfo, note); };
  gpus_ = std::make_unique<GpuWatch>(loop_, std::move(options));
  gpus_->Start();
}

void Daemon::StartHost() {
  host_ = std::make_unique<HostWatch>(loop_, HostWatch::Options{.directories = options_.settings.host.directories});
  host_->Start();
}

// Known processes, and the time of each rank's last line, stay.
void Daemon::ApplyDiscovery() {
  if (discovery_) {
    for (const KnownProcess& each : discovery_->Processes()) known_until_.Note(each.run, each.rank, each.reported_t);
    state_->StoreProcesses(discovery_->Processes());
    discovery_->Stop();
    discovery_.reset();
  }
  if (options_.settings.discovery.enabled) StartDiscovery();
}

void Daemon::Restore(const Restored& restored, int64_t begun_number) {
  incidents_.Restore(restored);
  courier_->Restore(restored.deliveries);
  number_ = std::max(number_, restored.number_last);
  state_->Restore(restored);
  const std::set<std::string> newest = NewestRuns(restored.lines);
  // A run that ended long ago has no lines left, and must not begin again because an incident of it is open.
  for (const StoredIncident& each : restored.incidents)
    if (each.incident.state != IncidentState::kResolved &&
        (newest.contains(each.incident.run) || !state_->HasEnded(each.incident.run)))
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
  if (!restored.lines.empty()) add_gap(options_.look_at_clocks().wall);
}

// As after a kill at this moment: data of the store, and data that waited for it.
void Daemon::RestoreLate(const Restored& restored) {
  log_.Write(LogLevel::kInfo, "the store is available: its data is restored");
  observer_ = Observer(SettingsOfObserver(options_.settings.detectors));
  Restore(restored, begun_number_);
  observer_.SetEarliest(t() - kPastSeconds);
  state_->StartOver();
  if (!discovery_) return;
  std::vector<KnownProcess> seen = discovery_->Processes();
  std::vector<KnownProcess> unseen;
  for (const KnownProcess& each : restored.processes)
    if (std::none_of(seen.begin(), seen.end(), [&](const auto& other) { return KeyOf(other) == KeyOf(each); }))
      unseen.push_back(each);
  discovery_->Remember(unseen);
}

void Daemon::Stop() {
  constexpr std::chrono::seconds kDeliveryTime{2};
  if (store_) courier_->Finish(kDeliveryTime);
  gpus_.reset();
  host_.reset();
  if (discovery_) discovery_->Stop();  // it still returns the known processes
  TakeSome(std::chrono::steady_clock::time_point::max());
  intake_.Close();
  tick_.Cancel();
  upstream_.reset();
  if (!store_) return;
  state_->StoreRuns(t(), observer_.Runs().size());
  state_->StoreAllFoundSeries();
  state_->FindSeries();
  state_->StoreAllFoundSeries();
  if (discovery_) state_->StoreProcesses(discovery_->Processes());
  state_.reset();
  store_.reset();
}

std::string Daemon::Apply(const DaemonSettings& settings) {
  const DaemonSettings before = std::exchange(options_.settings, settings);
  store_->SetLimits(LimitsOf(settings.store));
  if (settings.listen.tcp != before.listen.tcp || settings.listen.token_file != before.listen.token_file ||
      settings.listen.name != before.listen.name)
    intake_.SetTcp({settings.listen.tcp, settings.listen.token_file, settings.listen.name});
  if (!(settings.detectors == before.detectors)) observer_.Apply(SettingsOfObserver(settings.detectors));
  if (!(settings.delivery == before.delivery) || settings.listen.public_url != before.listen.public_url)
    courier_->Apply(settings.delivery, settings.listen.public_url);
  if (!(settings.upstream == before.upstream)) ApplyUpstream();
  if (!(settings.discovery == before.discovery)) ApplyDiscovery();
  if (settings.gpu.source != before.gpu.source) StartGpus();
  if (!(settings.host == before.host)) StartHost();
  if (!(settings.metrics == before.metrics)) ApplyMetrics();
  if (!(settings.otlp == before.otlp)) ApplyOtlp();
  return settings.listen.readers != before.listen.readers ? " listen.readers" : "";
}

void Daemon::ApplyMetrics() {
  const MetricsSettings& settings = options_.settings.metrics;
  drop_.reset();
  targets_file_.reset();
  DropLimits limits;
  limits.seconds_max = static_cast<double>(settings.file_seconds);
  if (!settings.directory.empty()) drop_.emplace(loop_, settings.directory, limits);
  if (!settings.targets_file.empty())
    targets_file_.emplace(loop_, settings.targets_file, [this](const Status& status) {
      log_.Write(LogLevel::kWarning, "the file of targets is not up to date: " + status.message() + "; it is retried");
    });
}

void Daemon::ApplyOtlp() {
  const OtlpSettings& settings = options_.settings.otlp;
  otlp_.reset();
  if (settings.url.empty()) return;
  const Result<UpstreamAddress> address = ParseUpstream(settings.url);
  if (!address.ok()) return log_.Write(LogLevel::kError, "otlp.url must be http://HOST:PORT; no metrics are sent");
  OtlpOptions options;
  options.address = address.value();
  options.headers_file = settings.headers_file;
  options.seconds = static_cast<double>(settings.seconds);
  options.on_trouble = [this](const std::string& why) {
    log_.Write(LogLevel::kWarning, "cannot send metrics by OTLP: " + why + "; later ones are sent again");
  };
  otlp_.emplace(loop_, std::move(options));
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

// --- time ---

void Daemon::AwaitTick() {
  due_ = options_.look_at_clocks().running + std::chrono::duration<double>(kTick).count();
  tick_.After(kTick, [this] {
    loop_delay_ = std::max(0.0, options_.look_at_clocks().running - due_);
    loop_delay_max_ = ticks_ % kTicksOfMinute == 0 ? loop_delay_ : std::max(loop_delay_max_, loop_delay_);
    AwaitTick();
    Tick();
  });
}

// The user's settings hold by the clock of the machine.
Settings Daemon::SettingsOfObserver(Settings chosen) {
  chosen.stuck.witness_seconds = std::max(1.0, chosen.stuck.witness_seconds - kHeardWithinSeconds);
  return chosen;
}

double Daemon::PassTime(std::vector<Incident>* changes) {
  const ClockLook look = options_.look_at_clocks();
  if (const double hidden = clock_.Look(look); hidden != 0) {
    log_.Write(LogLevel::kWarning, "the clock was set, or this machine or process stood still: " +
                                       std::to_string(hidden) + " seconds are not counted");
    const Line step{look.wall, "", std::nullopt, Event(ClockStepEvent{hidden})};
    Keep(step, true);
    const std::vector<Incident> more = observer_.Observe(step);
    changes->insert(changes->end(), more.begin(), more.end());
  }
  const std::vector<Incident> more = observer_.AdvanceTo(look.wall - kHeardWithinSeconds);
  changes->insert(changes->end(), more.begin(), more.end());
  return look.wall;
}

void Daemon::Tick() {
  std::vector<Incident> changes;
  const double now = PassTime(&changes);
  Publish(changes, {});
  courier_->Tick();
  state_->StoreSeries(kSeriesRunsAtOnce);
  if (++ticks_ % kTicksOfSecond != 0) return;
  state_->StoreRuns(now, kRunsAtOnce);
  if (discovery_) state_->StoreProcesses(discovery_->Processes());
  if (ticks_ % kTicksOfSeries == 0) state_->FindSeries();
  if (ticks_ % kTicksOfMinute == 0) ForgetOld();
  store_->Tick(now);
  LookForLosses();
  if (upstream_) upstream_->Tick(options_.look_at_clocks().running);
  intake_.Tick();
  TickMetrics(now);
  NotifyService("WATCHDOG=1");
}

// About once a second.
void Daemon::TickMetrics(double now) {
  constexpr int64_t kTicksOfFiles = 5 * kTicksOfSecond, kTicksOfTargets = 15 * kTicksOfSecond;
  if (drop_ && ticks_ % kTicksOfFiles == 0) drop_->Look(now);
  const ClockLook look = options_.look_at_clocks();
  if (otlp_) otlp_->Tick(look.running, [&] { return OtlpBody(Families(), now - (look.running - started_), now); });
  if (!targets_file_ || ticks_ % kTicksOfTargets != 0) return;
  Targets(/*with_own=*/true, /*with_jobs=*/true, [this](std::string json) {
    if (targets_file_) targets_file_->Write(std::move(json));
  });
}

// --- lines ---

void Daemon::TakeLine(Line line) {
  Take({std::move(line)}, {});
}

// All lines in their order: lines that arrive while many are being processed wait for them.
void Daemon::Take(std::vector<Line> lines, std::function<void()> then) {
  lines_waiting_ += lines.size();
  taking_.push_back({std::move(lines), 0, std::move(then)});
  if (taking_.size() == 1) TakeSome(std::chrono::steady_clock::now() + kTurn);
}

void Daemon::TakeSome(std::chrono::steady_clock::time_point until) {
  while (!taking_.empty()) {
    Taking& taking = taking_.front();
    const double now = PassTime(&taking.changes);
    while (taking.taken < taking.lines.size()) {
      Line& line = taking.lines[taking.taken++];
      --lines_waiting_;
      line.t = std::min(line.t, now);
      Observe(std::move(line), &taking.changes);
      if (std::chrono::steady_clock::now() < until) continue;
      if (taking.taken < taking.lines.size())
        return Later([this] { TakeSome(std::chrono::steady_clock::now() + kTurn); });
    }
    Taking done = std::move(taking);
    taking_.pop_front();
    Publish(done.changes, std::move(done.then));
  }
}

void Daemon::Later(std::function<void()> work) {
  later_.push_back(std::move(work));
  if (later_.size() == 1) boost::asio::post(loop_, [this] { DoNext(); });
}

// One piece per turn, even if several have long work to do.
void Daemon::DoNext() {
  const std::function<void()> work = std::move(later_.front());
  later_.pop_front();
  if (!later_.empty()) boost::asio::post(loop_, [this] { DoNext(); });
  work();
}

void Daemon::Observe(Line line, std::vector<Incident>* changes) {
  ++lines_taken_;
  if (auto* beat = std::get_if<Beat>(&line.what)) SetPeak(options_.settings.gpu.peak_flops, beat);
  Keep(line, false);
  if (!line.run.empty() && !observer_.Knows(line.run)) AdoptOf(line.run);
  const std::vector<Incident> more = observer_.Observe(line);
  changes->insert(changes->end(), more.begin(), more.end());
}

void Daemon::Keep(const Line& line, bool is_ours) {
  Line named = line;
  if (is_ours) named.run = kNoRun;
  std::string json = LineJson(named);
  // A clock step concerns only the observer of that clock.
  if (upstream_ && !is_ours) upstream_->Add(json);
  store_->next().Add({++number_, line.run, line.t, std::move(json), Begins(line)});
  if (store_->next().line_bytes() > StoreQueue::kLineBytesMax) store_->Bound();
}

void Daemon::LogLoss(const std::string& what) {
  constexpr size_t kLossesMax = 100;
  if (losses_logged_.size() < kLossesMax && losses_logged_.insert(what).second)
    log_.Write(LogLevel::kWarning, what + "; logged once, counted in /metrics");
}

void Daemon::CountLeftOut() {
  ++requests_left_out_;
  LogLoss("too many requests with large bodies at a time: some are answered with status 503");
}

void Daemon::LookForLosses() {
  if (observer_.lines_dropped() > 0)
    LogLoss("more runs or ranks send lines than are kept: lines of the newest are dropped");
  if (observer_.series_halved() > 0)
    LogLoss("runs report more numbers than are kept: the series of the run with the most numbers are halved");
  if (store_->counts().lines_dropped > 0)
    LogLoss("lines arrive faster than the store writes them: the oldest waiting lines are dropped");
}

void Daemon::Publish(const std::vector<Incident>& changes, std::function<void()> then) {
  if (changes.empty()) {
    if (then) then();
    return;
  }
  for (const Incident& each : changes) {
    if (each.state == IncidentState::kOpened) ++incidents_opened_[{each.kind, each.severity}];
    store_->next().changes.push_back(incidents_.Change(each));
    courier_->Take(store_->next().changes.back());
    if (discovery_ && WantsStacks(each)) discovery_->CollectStacks(each.run, each.ranks);
  }
  store_->Flush([this, changes, then = std::move(then)] {
    for (const Incident& each : changes)
      log_.Write(each.severity == Severity::kCritical ? LogLevel::kError : LogLevel::kWarning, IncidentSentence(each));
    intake_.Wake();
    if (then) then();
  });
}

// --- old data ---

void Daemon::StoreAgain() {
  Batch& next = store_->next();
  for (const StoredChange& change : incidents_.All()) next.changes.push_back(change);
  for (const Silence& silence : incidents_.Silences(t())) next.silences.push_back(silence);
  state_->StoreAgain();
  StoreDeliveriesAgain();
}

void Daemon::ForgetOld() {
  std::set<std::string> open;
  for (const RunSnapshot& run : observer_.Runs())
    if (!run.ended) open.insert(run.id);
  known_until_.KeepOnly(open);
  state_->ForgetOld();
  (void)incidents_.Silences(t());
  ResolveForgotten();
}

void Daemon::ResolveForgotten() {
  std::vector<Incident> changes;
  for (const StoredIncident& each : incidents_.Open()) {
    if (observer_.Knows(each.incident.run) || state_->HasEnded(each.incident.run)) continue;
    Incident forgotten = each.incident;
    forgotten.state = IncidentState::kResolved;
    forgotten.t = t();
    forgotten.evidence.SetText("resolved_by", "the run is forgotten");
    changes.push_back(std::move(forgotten));
  }
  Publish(changes, {});
}

void Daemon::AdoptOf(const std::string& run) {
  std::vector<StoredIncident> open = incidents_.List({true, run, std::numeric_limits<size_t>::max()});
  for (auto each = open.rbegin(); each != open.rend(); ++each) observer_.Adopt(each->incident);
}

// --- answers to requests at the intake ---

void Daemon::SeriesNames(const std::string& run, std::function<void(std::vector<std::string>)> then) {
  const auto merge = [seen = observer_.SeriesNames(run), then](const std::vector<std::string>& stored) {
    std::set<std::string> names(seen.begin(), seen.end());
    names.insert(stored.begin(), stored.end());
    then({names.begin(), names.end()});
  };
  ReadStore<std::vector<std::string>>(
      store_.get(), [run](Store& store) { return store.SeriesNames(run); }, merge);
}

// The store has the data from before this process began to watch.
void Daemon::SeriesOf(const std::string& run, const std::string& name,
                      std::function<void(std::vector<SeriesPoint>)> then) {
  const auto merge = [seen = observer_.SeriesOf(run, name), then](std::vector<SeriesPoint> points) {
    if (!seen.empty())
      std::erase_if(points, [&](const SeriesPoint& point) { return point.step_first >= seen.front().step_first; });
    points.insert(points.end(), seen.begin(), seen.end());
    then(std::move(points));
  };
  ReadStore<std::vector<SeriesPoint>>(
      store_.get(), [run, name](Store& store) { return store.SeriesOf(run, name); }, merge);
}

void Daemon::ChangesOf(const std::string& incident, std::function<void(std::vector<StoredChange>)> then) {
  ReadStore<std::vector<StoredChange>>(
      store_.get(), [incident](Store& store) { return store.ChangesOf(incident); }, std::move(then));
}

bool Daemon::Acknowledge(const std::string& incident, const Acknowledgement& acknowledgement,
                         std::function<void()> then) {
  std::optional<StoredChange> change = incidents_.Acknowledge(incident, acknowledgement);
  if (!change) return false;
  courier_->Take(*change);
  store_->next().changes.push_back(std::move(*change));
  store_->Flush([this, then = std::move(then)] {
    intake_.Wake();
    then();
  });
  return true;
}

bool Daemon::AddSilence(const Silence& silence, std::function<void()> then) {
  if (!incidents_.Add(silence)) return false;
  store_->next().silences.push_back(silence);
  store_->Flush(std::move(then));
  return true;
}

bool Daemon::RemoveSilence(const std::string& id, std::function<void()> then) {
  if (!incidents_.RemoveSilence(id)) return false;
  store_->next().silences_removed.push_back(id);
  store_->Flush(std::move(then));
  return true;
}

DaemonCounts Daemon::Counts() const {
  DaemonCounts counts;
  counts.uptime_seconds = options_.look_at_clocks().running - started_;
  for (const RunSnapshot& run : observer_.Runs()) ++counts.runs[StateOf(run)];
  for (const StoredIncident& each : incidents_.Open()) ++counts.incidents_open[std::string(NameOf(each.incident.kind))];
  counts.incidents_opened = incidents_opened_;
  // The first incident of a kind is an increase, too.
  for (size_t i = 0; i < kIncidentKinds; ++i)
    (void)counts.incidents_opened[{static_cast<IncidentKind>(i), SeverityOf(static_cast<IncidentKind>(i))}];
  counts.lines_taken = lines_taken_;
  counts.lines_refused = lines_refused_;
  counts.lines_dropped = observer_.lines_dropped();
  counts.series_halved = observer_.series_halved();
  counts.jobs_left_out = discovery_ ? discovery_->left_out() : 0;
  counts.requests_left_out = requests_left_out_;
  const StoreQueue::Counts store = store_->counts();
  counts.lines_never_stored = store.lines_dropped;
  counts.changes_never_stored = store.changes_dropped;
  counts.store_changes_lost = store.changes_lost;
  counts.store_set_aside = store.set_aside;
  counts.log_lines_dropped = log_.lines_dropped();
  counts.store_waiting_bytes = static_cast<int64_t>(store.waiting_bytes);
  counts.store_bytes = store.bytes;
  counts.store_in_trouble = store.in_trouble;
  counts.loop_delay_seconds = loop_delay_max_;
  for (const auto& [receiver, each] : courier_->Counts())
    counts.deliveries[receiver] = {each.sent, each.failed, each.dead, each.waiting, each.digested};
  if (!upstream_) return counts;
  counts.upstream_waiting_bytes = upstream_->counts().waiting_bytes;
  counts.upstream_dropped_bytes = upstream_->counts().dropped_bytes;
  return counts;
}

std::vector<MetricFamily> Daemon::Families() const {
  RunPage page{observer_.RunsOfLate(kEndedSecondsOnPage, kSilentSecondsOnPage), observer_.t(), {}};
  for (const StoredIncident& each : incidents_.Open())
    page.incidents.push_back({each.incident.run, each.incident.kind, each.incident.severity});
  std::vector<MetricFamily> families = RunFamilies(std::move(page));
  if (otlp_) {
    families.push_back({"stepwatchd_otlp_sent", "counter", "Requests that the collector accepted.", {}});
    families.back().Add(static_cast<double>(otlp_->sent()));
    families.push_back({"stepwatchd_otlp_failed", "counter", "Requests that the collector did not accept.", {}});
    families.back().Add(static_cast<double>(otlp_->failed()));
  }
  if (!drop_) return families;
  for (MetricFamily& family : drop_->Families(t())) families.push_back(std::move(family));
  return families;
}

void Daemon::OtherMetrics(http::MetricsFormat format, std::function<void(std::string page)> then) {
  http::MetricsPage own(format);
  AddMachineMetrics(&own);
  AddFamilies(Families(), &own);
  std::vector<ExpositionPage> files;
  if (drop_) drop_->AddPages(t(), &files);
  const auto finish = [format, own = std::move(own).Begin(), files = std::move(files),
                       then = std::move(then)](const JobPages& jobs) {
    std::vector<ExpositionPage> pages = jobs.pages;
    pages.insert(pages.end(), files.begin(), files.end());
    then(own + MergeExpositions(pages, jobs.missing, format));
  };
  if (discovery_) return discovery_->FetchMetrics(finish);
  finish({});
}

void Daemon::Targets(bool with_own, bool with_jobs, std::function<void(std::string json)> then) {
  const MachineNames names{HostName(), options_.settings.listen.name};
  std::vector<ScrapeTarget> own;
  if (with_own) own = OwnTargets(intake_.tcp_address(), names);
  const auto finish = [names, own = std::move(own), then = std::move(then)](const JobPages& status) {
    std::vector<ScrapeTarget> targets = own;
    for (ScrapeTarget& target : JobTargets(status, names)) targets.push_back(std::move(target));
    then(TargetsJson(targets));
  };
  if (discovery_ && with_jobs) return discovery_->FetchStatus(finish);
  finish({});
}

void Daemon::AddMachineMetrics(http::MetricsPage* page) const {
  if (gpus_) gpus_->AddMetrics(page);
  if (!host_) return;
  std::map<std::string, double> checkpoint_bytes;
  for (const RunSnapshot& run : observer_.RunsOfLate(kEndedSecondsOnPage, kSilentSecondsOnPage))
    if (run.numbers.checkpoint_bytes && !run.ended) checkpoint_bytes[run.id] = *run.numbers.checkpoint_bytes;
  host_->AddMetrics(checkpoint_bytes, page);
}

Status Daemon::Ready() const {
  if (store_trouble_.empty()) return Status();
  return Status(StatusCode::kUnavailable, store_trouble_);
}

}  // namespace stepwatch::operations
