#include "operations/daemon/daemon.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "operations/daemon/log.h"
#include "operations/daemon/notify_service.h"
#include "operations/runs/run_state.h"
#include "src/base/file.h"

namespace stepwatch::operations {
namespace {

constexpr int64_t kTicksOfSecond = TickTimer::kTicksOfSecond, kTicksOfMinute = TickTimer::kTicksOfMinute;
// Thousands of changed runs, such as at the start, are written over some seconds.
constexpr size_t kRunsAtOnce = 200, kSeriesRunsAtOnce = 100;
constexpr int64_t kTicksOfSeries = 10 * kTicksOfSecond;
constexpr int64_t kTicksOfMaintenance = 5 * kTicksOfSecond;

// Stacks are needed before the processes are killed.
bool WantsStacks(const StoredChange& change) {
  return change.what == NameOf(IncidentState::kOpened) && change.incident.kind == IncidentKind::kStuck;
}

StoreLimits LimitsOf(const StoreSettings& settings) {
  StoreLimits limits;
  limits.line_seconds = 60.0 * static_cast<double>(settings.lines_minutes);
  limits.line_bytes = settings.lines_mib << 20;
  limits.bytes = settings.mib << 20;
  limits.ended_seconds = 86400.0 * static_cast<double>(settings.ended_days);
  return limits;
}

http::TcpOptions TcpOf(const ListenSettings& listen) {
  return {listen.tcp, listen.token_file, listen.name};
}

}  // namespace

// --- the parts ---

Daemon::Daemon(boost::asio::io_context& loop, DaemonOptions options, Log* log)
    : loop_(loop),
      log_(*log),
      options_(std::move(options)),
      losses_(log),
      turns_(loop),
      tick_(loop, [look = options_.look_at_clocks] { return look().running; }),
      store_(MakeStore()),
      keeper_(
          loop, base::JoinPath(options_.state_directory, "upstream"), [this] { return Wall(); }, store_.get(), log,
          &losses_),
      ledger_(store_.get(), log, LedgerCallbacks()),
      lines_(options_.settings, options_.look_at_clocks, {&keeper_, &ledger_, &turns_, log}),
      state_(&lines_.observer(), store_.get(), log),
      jobs_(loop, JobsDependencies()),
      machine_(loop, MachineDependencies()),
      maintenance_(loop, {[this] { return Wall(); }, &lines_.observer(), &ledger_, log}),
      logs_(loop, OptionsOfLogs(), LogCallbacks()),
      metrics_(loop, options_.look_at_clocks, [this] { return intake_.tcp_address(); },
               {[this] { return service_.Counts(); }, [this] { return logs_.Families(); }, &lines_.observer(),
                &ledger_.registry(), &machine_, &jobs_, log}),
      service_(options_.look_at_clocks, {log, &losses_, &turns_, store_.get(), &keeper_, &ledger_, &lines_, &state_,
                                         &jobs_, &metrics_, &tick_, &courier_, &logs_}),
      courier_(loop, OptionsOfCourier(), &service_),
      intake_(loop, OptionsOfIntake(), &service_) {
  courier_.Apply(options_.settings.delivery, options_.settings.listen.public_url);
}

std::unique_ptr<StoreQueue> Daemon::MakeStore() {
  StoreQueue::Callbacks callbacks;
  callbacks.on_trouble = [this](const std::string& why) {
    service_.SetTrouble(why);
    if (is_started_)
      log_.Write(LogLevel::kError, why + "; unstored data waits in memory, and the store is retried every second");
  };
  callbacks.on_recovery = [this] {
    service_.SetTrouble("");
    state_.StoreAllSeries();
    StoreDeliveriesAgain();
    log_.Write(LogLevel::kInfo, "the store is available again: the waiting data is written");
  };
  callbacks.on_note = [this](const std::string& note) { log_.Write(LogLevel::kError, note); };
  callbacks.on_restored = [this](const Restored& restored) { Restore(restored); };
  callbacks.on_renewal = [this] { StoreAgain(); };
  return std::make_unique<StoreQueue>(
      loop_, StoreOptions{base::JoinPath(options_.state_directory, "stepwatchd.db"), options_.vfs},
      LimitsOf(options_.settings.store), std::move(callbacks));
}

IncidentLedger::Callbacks Daemon::LedgerCallbacks() {
  IncidentLedger::Callbacks callbacks;
  callbacks.on_change = [this](const StoredChange& change) {
    courier_.Take(change);
    if (!WantsStacks(change)) return;
    jobs_.CollectStacks(change.incident.run, change.incident.ranks);
    if (MayRunHere(change.incident.run)) logs_.sent().OnStuck(change.incident.run);
  };
  callbacks.on_safe = [this] { intake_.Wake(); };
  return callbacks;
}

// Jobs that have no monitor have no known process.
bool Daemon::MayRunHere(const std::string& run) const {
  const std::vector<KnownProcess> processes = jobs_.Processes();
  return processes.empty() ||
         std::any_of(processes.begin(), processes.end(), [&](const auto& each) { return each.run == run; });
}

LocalJobs::Dependencies Daemon::JobsDependencies() {
  return {[this] { return Wall(); }, [this](Line line) { TakeLine(std::move(line)); }, &lines_.known_until(), &state_,
          &losses_};
}

MachineWatch::Dependencies Daemon::MachineDependencies() {
  return {[this] { return Wall(); }, [this] { return jobs_.Processes(); },
          [this](Line line) { TakeLine(std::move(line)); },
          [this](const std::string& note) { log_.Write(LogLevel::kInfo, note); }};
}

LogIntakeOptions Daemon::OptionsOfLogs() {
  LogIntakeOptions logs{options_.state_directory, options_.make_transport, [this] { return Wall(); },
                        [this](const std::string& why) { log_.Write(LogLevel::kWarning, why); }};
  logs.processes = [this] {
    ProcessesOfRuns processes;
    for (const KnownProcess& each : jobs_.Processes()) processes.try_emplace(each.process.pid, each.run, each.rank);
    return processes;
  };
  logs.reports_xids = [this] { return options_.settings.gpu.source != "nvml"; };
  logs.report_ras = [this](const std::string& run, const std::string& text) {
    TakeLine({Wall(), run, std::nullopt, Event(StacksEvent{text, true})});
  };
  return logs;
}

LogRecords::Callbacks Daemon::LogCallbacks() {
  LogRecords::Callbacks callbacks;
  callbacks.take = [this](std::vector<Line> lines, std::function<void()> then) {
    lines_.Take(std::move(lines), [this, then = std::move(then)] {
      if (store_) store_->Flush(then);
    });
  };
  callbacks.is_monitored = [this](const std::string& run) {
    const RunState* state = lines_.observer().StateOf(run);
    return state != nullptr && state->has_monitor();
  };
  callbacks.is_open = [this](const std::string& run) {
    const RunState* state = lines_.observer().StateOf(run);
    return state != nullptr && !state->ended();
  };
  callbacks.known_step = [this](const std::string& run, int64_t rank) {
    const RunState* state = lines_.observer().StateOf(run);
    const RankState* known = state == nullptr ? nullptr : state->FindRank(rank);
    return known == nullptr ? std::nullopt : known->step;
  };
  return callbacks;
}

delivery::CourierOptions Daemon::OptionsOfCourier() {
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
  return options;
}

IntakeOptions Daemon::OptionsOfIntake() const {
  IntakeOptions intake;
  intake.socket = options_.socket;
  intake.readers = options_.settings.listen.readers;
  intake.tcp = TcpOf(options_.settings.listen);
  intake.on_note = [log = &log_](const std::string& note) { log->Write(LogLevel::kInfo, note); };
  return intake;
}

// --- start, stop, new settings ---

// The store may take long to open, or never open: then watching begins without it.
Status Daemon::AwaitStore() {
  constexpr std::chrono::milliseconds kAwaited{1200};
  if (Status status = store_->AwaitOpen(kAwaited); !status.ok()) return status;
  is_started_ = true;
  lines_.Begin(is_restored_);
  if (!is_restored_)
    log_.Write(LogLevel::kError, service_.Ready().message() + "; watching starts without the stored data");
  return Status();
}

Status Daemon::Start() {
  if (Status status = AwaitStore(); !status.ok()) return status;
  const DaemonSettings& settings = options_.settings;
  if (Status status = keeper_.Open(settings.upstream); !status.ok()) return status;
  if (Status status = intake_.Open(); !status.ok()) return status;
  jobs_.Start(settings.discovery);
  machine_.Apply(settings.gpu, settings.host);
  maintenance_.Apply(settings.maintenance);
  metrics_.Apply(settings.metrics, settings.otlp, settings.listen);
  logs_.Apply(settings.logs);
  tick_.Start([this](int64_t number) { Tick(number); });
  return Status();
}

void Daemon::Stop() {
  constexpr std::chrono::seconds kDeliveryTime{2};
  if (!store_) return;
  courier_.Finish(kDeliveryTime);
  machine_.Stop();
  maintenance_.Stop();
  jobs_.Stop();
  logs_.Stop();
  lines_.Finish();
  intake_.Close();
  tick_.Stop();
  keeper_.Stop();
  state_.StoreRuns(Wall(), lines_.observer().Runs().size());
  state_.StoreAllFoundSeries();
  state_.FindSeries();
  state_.StoreAllFoundSeries();
  jobs_.StoreProcesses();
  store_.reset();
}

std::string Daemon::Apply(const DaemonSettings& settings) {
  const DaemonSettings before = std::exchange(options_.settings, settings);
  store_->SetLimits(LimitsOf(settings.store));
  if (settings.listen.tcp != before.listen.tcp || settings.listen.token_file != before.listen.token_file ||
      settings.listen.name != before.listen.name)
    intake_.SetTcp(TcpOf(settings.listen));
  lines_.Apply(settings);
  if (!(settings.delivery == before.delivery) || settings.listen.public_url != before.listen.public_url)
    courier_.Apply(settings.delivery, settings.listen.public_url);
  if (!(settings.upstream == before.upstream)) keeper_.Apply(settings.upstream);
  if (!(settings.discovery == before.discovery)) jobs_.Apply(settings.discovery);
  machine_.Apply(settings.gpu, settings.host);
  maintenance_.Apply(settings.maintenance);
  metrics_.Apply(settings.metrics, settings.otlp, settings.listen);
  logs_.Apply(settings.logs);
  return settings.listen.readers != before.listen.readers ? " listen.readers" : "";
}

// --- data of the store ---

void Daemon::Restore(const Restored& restored) {
  is_restored_ = true;
  if (is_started_) log_.Write(LogLevel::kInfo, "the store is available: its data is restored");
  ledger_.Restore(restored);
  courier_.Restore(restored.deliveries, restored.lacks_some);
  state_.Restore(restored);
  lines_.Restore(restored, state_);
  if (!is_started_) return;
  state_.StartOver();
  jobs_.Remember(restored.processes);
}

void Daemon::StoreAgain() {
  ledger_.StoreAgain(Wall());
  state_.StoreAgain();
  StoreDeliveriesAgain();
}

void Daemon::StoreDeliveriesAgain() {
  store_->next().starts_deliveries_over = true;
  store_->next().deliveries.clear();
  courier_.StoreAgain();
}

void Daemon::ForgetOld() {
  lines_.ForgetOld();
  state_.ForgetOld();
  (void)ledger_.registry().Silences(Wall());
  const auto is_known = [this](const std::string& run) { return lines_.observer().Knows(run) || state_.HasEnded(run); };
  ledger_.ResolveForgotten(is_known, Wall());
}

// --- time and lines ---

void Daemon::Tick(int64_t number) {
  const double now = lines_.Advance();
  courier_.Tick();
  state_.StoreSeries(kSeriesRunsAtOnce);
  if (number % kTicksOfSecond != 0) return;
  state_.StoreRuns(now, kRunsAtOnce);
  jobs_.StoreProcesses();
  if (number % kTicksOfSeries == 0) state_.FindSeries();
  if (number % kTicksOfMaintenance == 0) maintenance_.Tick();
  if (number % kTicksOfMinute == 0) ForgetOld();
  store_->Tick(now);
  LookForLosses();
  keeper_.Tick(options_.look_at_clocks().running);
  intake_.Tick();
  metrics_.Tick(number / kTicksOfSecond);
  logs_.Tick(now, options_.look_at_clocks().running);
  NotifyService("WATCHDOG=1");
}

void Daemon::LookForLosses() {
  if (lines_.observer().lines_dropped() > 0)
    losses_.Write("more runs or ranks send lines than are kept: lines of the newest are dropped");
  if (lines_.observer().series_halved() > 0)
    losses_.Write("runs report more numbers than are kept: the series of the run with the most numbers are halved");
  if (store_->counts().lines_dropped > 0)
    losses_.Write("lines arrive faster than the store writes them: the oldest waiting lines are dropped");
}

void Daemon::TakeLine(Line line) {
  lines_.Take({std::move(line)}, {});
}

}  // namespace stepwatch::operations
