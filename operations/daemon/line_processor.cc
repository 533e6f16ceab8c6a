#include "operations/daemon/line_processor.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "operations/daemon/incident_ledger.h"
#include "operations/daemon/line_keeper.h"
#include "operations/daemon/log.h"
#include "operations/daemon/state_writer.h"
#include "operations/daemon/turn_queue.h"
#include "operations/runs/run_totals.h"
#include "operations/trace/parse_line.h"

namespace stepwatch::operations {
namespace {

constexpr std::chrono::milliseconds kTurn{5};
// Beats are requested once a second, and each has the time of its step. An observer ahead of these times would see many
// steps at one moment.
constexpr double kHeardWithinSeconds = 1;
// The beats that a job has kept show the duration of its steps. Older beats are processed as of this time: replaying a
// month of them would take seconds.
constexpr double kPastSeconds = 600;

// The user's settings hold by the clock of the machine.
Settings SettingsOfObserver(Settings chosen) {
  chosen.stuck.witness_seconds = std::max(1.0, chosen.stuck.witness_seconds - kHeardWithinSeconds);
  return chosen;
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

void Append(std::vector<Incident> more, std::vector<Incident>* changes) {
  changes->insert(changes->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

LineProcessor::LineProcessor(const DaemonSettings& settings, std::function<ClockLook()> look_at_clocks, Parts parts)
    : look_at_clocks_(std::move(look_at_clocks)),
      keeper_(*parts.keeper),
      ledger_(*parts.ledger),
      turns_(*parts.turns),
      log_(*parts.log),
      settings_(settings.detectors),
      peak_flops_(settings.gpu.peak_flops),
      observer_(SettingsOfObserver(settings_)) {}

void LineProcessor::Apply(const DaemonSettings& settings) {
  peak_flops_ = settings.gpu.peak_flops;
  if (settings.detectors == settings_) return;
  settings_ = settings.detectors;
  observer_.Apply(SettingsOfObserver(settings_));
}

void LineProcessor::Begin(bool has_store) {
  has_begun_ = true;
  const ClockLook look = look_at_clocks_();
  (void)clock_.Look(look);
  observer_.SetEarliest(look.wall - kPastSeconds);
  if (has_store) return;
  // No number from a store that opens later is this large.
  begun_number_ = static_cast<int64_t>(look.wall * 1000);
  keeper_.CountFrom(begun_number_);
  Restored none;
  none.number_last = begun_number_;
  ledger_.Restore(none);
}

void LineProcessor::Restore(const Restored& restored, const StateWriter& state) {
  // As after a kill at this moment: data of the store, and data that waited for it.
  if (has_begun_) observer_ = Observer(SettingsOfObserver(settings_));
  keeper_.CountFrom(restored.number_last);
  const std::set<std::string> newest = NewestRuns(restored.lines);
  // A run that ended long ago has no lines left, and must not begin again because an incident of it is open.
  for (const StoredIncident& each : restored.incidents)
    if (each.incident.state != IncidentState::kResolved &&
        (newest.contains(each.incident.run) || !state.HasEnded(each.incident.run)))
      observer_.Adopt(each.incident);
  // The time between the data of the previous process and that of this one was not watched: the silence is that of
  // stepwatchd.
  bool has_gap = false;
  const auto add_gap = [&](double t) {
    if (std::exchange(has_gap, true)) return;
    const Line gap{t, "", std::nullopt, Event(ClockStepEvent{t - observer_.t()})};
    observer_.Learn(gap);
    if (begun_number_ == 0) keeper_.Keep(gap, true);
  };
  for (const StoredLine& stored : restored.lines) {
    if (!newest.contains(stored.run)) continue;
    Result<Line> line = ParseLine(stored.json);
    if (!line.ok()) continue;
    if (stored.run.empty()) line.value().run.clear();
    if (const std::optional<int64_t> rank = line.value().rank)
      known_until_.Note(line.value().run, *rank, line.value().t);
    if (begun_number_ > 0 && stored.number >= begun_number_) add_gap(line.value().t);
    observer_.Learn(line.value());
  }
  for (const auto& [run, step] : restored.counted_until) observer_.CountedUntil(run, step);
  observer_.EndLearning();
  const double now = look_at_clocks_().wall;
  if (!restored.lines.empty()) add_gap(now);
  if (has_begun_) observer_.SetEarliest(now - kPastSeconds);
}

// All lines in their order: lines that arrive while many are being processed wait for them.
void LineProcessor::Take(std::vector<Line> lines, std::function<void()> then) {
  waiting_ += lines.size();
  taking_.push_back({std::move(lines), 0, std::move(then)});
  if (taking_.size() == 1) TakeSome(std::chrono::steady_clock::now() + kTurn);
}

void LineProcessor::Finish() {
  TakeSome(std::chrono::steady_clock::time_point::max());
}

void LineProcessor::TakeSome(std::chrono::steady_clock::time_point until) {
  while (!taking_.empty()) {
    Taking& taking = taking_.front();
    const double now = PassTime(&taking.changes);
    while (taking.taken < taking.lines.size()) {
      Line& line = taking.lines[taking.taken++];
      --waiting_;
      line.t = std::min(line.t, now);
      Observe(std::move(line), &taking.changes);
      if (std::chrono::steady_clock::now() < until) continue;
      if (taking.taken < taking.lines.size())
        return turns_.Add([this] { TakeSome(std::chrono::steady_clock::now() + kTurn); });
    }
    Taking done = std::move(taking);
    taking_.pop_front();
    ledger_.Publish(done.changes, std::move(done.then));
  }
}

void LineProcessor::Observe(Line line, std::vector<Incident>* changes) {
  ++taken_;
  if (auto* beat = std::get_if<Beat>(&line.what)) SetPeak(peak_flops_, beat);
  keeper_.Keep(line, false);
  if (!line.run.empty() && !observer_.Knows(line.run)) AdoptOf(line.run);
  Append(observer_.Observe(line), changes);
}

double LineProcessor::PassTime(std::vector<Incident>* changes) {
  const ClockLook look = look_at_clocks_();
  if (const double hidden = clock_.Look(look); hidden != 0) {
    log_.Write(LogLevel::kWarning, "the clock was set, or this machine or process stood still: " +
                                       std::to_string(hidden) + " seconds are not counted");
    const Line step{look.wall, "", std::nullopt, Event(ClockStepEvent{hidden})};
    keeper_.Keep(step, true);
    Append(observer_.Observe(step), changes);
  }
  Append(observer_.AdvanceTo(look.wall - kHeardWithinSeconds), changes);
  return look.wall;
}

double LineProcessor::Advance() {
  std::vector<Incident> changes;
  const double now = PassTime(&changes);
  ledger_.Publish(changes, {});
  return now;
}

void LineProcessor::ForgetOld() {
  std::set<std::string> open;
  for (const RunSnapshot& run : observer_.Runs())
    if (!run.ended) open.insert(run.id);
  known_until_.KeepOnly(open);
}

void LineProcessor::AdoptOf(const std::string& run) {
  std::vector<StoredIncident> open = ledger_.registry().List({true, run, std::numeric_limits<size_t>::max()});
  for (auto each = open.rbegin(); each != open.rend(); ++each) observer_.Adopt(each->incident);
}

}  // namespace stepwatch::operations
