#include "operations/daemon/daemon.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "operations/daemon/log.h"
#include "operations/daemon/notify_service.h"
#include "operations/trace/write_line.h"

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

}  // namespace

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
  StoreSeries(kSeriesRunsAtOnce);
  if (++ticks_ % kTicksOfSecond != 0) return;
  StoreRuns(kRunsAtOnce);
  StoreProcesses();
  if (ticks_ % kTicksOfSeries == 0) FindSeries();
  if (ticks_ % kTicksOfMinute == 0) ForgetOld();
  store_->Tick(now);
  LookForLosses();
  if (upstream_) upstream_->Tick(options_.look_at_clocks().running);
  intake_.Tick();
  NotifyService("WATCHDOG=1");
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
    store_->next().changes.push_back(incidents_.Change(each));
    if (discovery_ && WantsStacks(each)) discovery_->CollectStacks(each.run, each.ranks);
  }
  store_->Flush([this, changes, then = std::move(then)] {
    for (const Incident& each : changes)
      log_.Write(each.severity == Severity::kCritical ? LogLevel::kError : LogLevel::kWarning, IncidentSentence(each));
    intake_.Wake();
    if (then) then();
  });
}

}  // namespace stepwatch::operations
