#include "operations/incidents/observer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

#include "operations/detectors/detector.h"
#include "operations/incidents/incident_manager.h"
#include "operations/runs/run_state.h"
#include "operations/runs/virtual_clock.h"

namespace stepwatch::operations {
namespace {

constexpr double kTickSeconds = 0.5;
constexpr double kTicksMax = 20000;  // in one gap: a longer one is passed in larger steps
// Findings from shortly before the end are still decided on.
constexpr double kTicksAfterEnd = 10;
// A run that ended keeps its numbers for this long.
constexpr double kSeriesSecondsAfterEnd = 600;
// A run without an end and without reports is forgotten after this time.
constexpr double kSilentSecondsMin = 6 * 3600;
// Beats between two counts of the points of all runs.
constexpr int kBeatsOfCount = 4096;

}  // namespace

struct Observer::Impl {
  struct Watched {
    Watched(const std::string& id, double now, double wall, const Settings& settings)
        : run(id, now, wall), manager(id), detectors(MakeDetectors(settings)) {}

    RunState run;
    IncidentManager manager;
    std::vector<std::unique_ptr<Detector>> detectors;
    int64_t order = 0;
    double ticked_at = 0;
    bool rests = false;  // it ended long ago: its detectors are made again when it reports again
  };

  explicit Impl(const Settings& chosen) : settings(chosen) {}

  Watched* Find(std::string_view id) const {
    const auto found = runs.find(id);
    return found == runs.end() ? nullptr : found->second.get();
  }
  Watched* Get(const std::string& id, double wall);
  void MakeRoom();
  // Processes a line after `advance` has advanced time to it.
  template <class Advance>
  void Observe(const Line& line, const Advance& advance, std::vector<Incident>* changes);
  void BoundSeries();
  bool HasRoomFor(const Watched& watched, int64_t rank);
  void AdvanceTo(double now, std::vector<Incident>* changes);
  void Tick(Watched* watched, std::vector<Incident>* changes);
  void Rest(Watched* watched);
  void TakeBeat(Watched* watched, const Line& line, std::vector<Incident>* changes);
  void TakeEvent(Watched* watched, const Line& line, std::vector<Incident>* changes);
  void TakeForAll(const Line& line, std::vector<Incident>* changes);
  IncidentManager::Moment MomentOf(const Watched& watched) const { return {watched.run, clock, clock.now()}; }

  Settings settings;
  VirtualClock clock;
  std::map<std::string, std::unique_ptr<Watched>, std::less<>> runs;
  int64_t runs_seen = 0;
  int64_t lines_dropped = 0;
  int64_t series_halved = 0;
  bool is_learning = false;
  int beats_to_count = kBeatsOfCount;
  size_t ranks_of_all = 0;  // at the last count, and those that came since
  double ticked_at = 0;
  std::deque<std::string> to_forget;  // of the last check: see MakeRoom
  double full_until = 0;              // there was no run to forget
};

Observer::Impl::Watched* Observer::Impl::Get(const std::string& id, double wall) {
  if (Watched* found = Find(id)) return found;
  if (runs.size() >= kRunsMax) MakeRoom();
  if (runs.size() >= kRunsMax) return nullptr;
  auto& made = runs[id] = std::make_unique<Watched>(id, clock.now(), wall, settings);
  made->order = runs_seen++;
  return made.get();
}

// One check of all runs finds the runs to forget for many later calls: a check for each call would take time in
// proportion to the number of runs.
void Observer::Impl::MakeRoom() {
  constexpr size_t kAtOnce = 256;
  constexpr double kAgainSeconds = 60;
  const auto may_go = [&](const RunState& run) {
    return run.ended() || clock.now() - run.reported_at() > kSilentSecondsMin;
  };
  if (to_forget.empty() && clock.now() < full_until) return;
  if (to_forget.empty()) {
    using Candidate = std::tuple<bool, double, std::string>;  // those that ended first
    std::vector<Candidate> candidates;
    for (const auto& [id, watched] : runs)
      if (const RunState& run = watched->run; may_go(run))
        candidates.emplace_back(!run.ended(), run.ended() ? run.ended_at() : run.reported_at(), id);
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(std::min(kAtOnce, candidates.size()));
    std::partial_sort(candidates.begin(), end, candidates.end());
    for (auto each = candidates.begin(); each != end; ++each) to_forget.push_back(std::move(std::get<2>(*each)));
    if (to_forget.empty()) full_until = clock.now() + kAgainSeconds;
  }
  while (!to_forget.empty()) {
    const Watched* oldest = Find(to_forget.front());
    const bool is_over = oldest != nullptr && may_go(oldest->run);
    if (is_over) runs.erase(to_forget.front());
    to_forget.pop_front();
    if (is_over) return;
  }
}

void Observer::Impl::BoundSeries() {
  std::map<Watched*, size_t> points;
  size_t in_all = 0;
  for (auto& [id, watched] : runs) in_all += points[watched.get()] = watched->run.Points();
  while (in_all > kPointsOfAllMax) {
    const auto most = std::max_element(points.begin(), points.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    most->first->run.HalveSeries();
    const size_t left = most->first->run.Points();
    if (left == most->second) return;  // one point each
    in_all -= most->second - left;
    most->second = left;
    ++series_halved;
  }
}

bool Observer::Impl::HasRoomFor(const Watched& watched, int64_t rank) {
  if (watched.run.FindRank(rank) != nullptr) return true;
  if (ranks_of_all >= kRanksOfAllMax) return false;
  ++ranks_of_all;
  return true;
}

void Observer::Impl::Rest(Watched* watched) {
  watched->rests = true;
  watched->run.ForgetSeries();
  watched->run.ForgetMonitor();
  watched->detectors = MakeDetectors(settings);
}

void Observer::Impl::AdvanceTo(double now, std::vector<Incident>* changes) {
  const double tick = std::max(kTickSeconds, (now - clock.now()) / kTicksMax);
  for (double at = std::max(ticked_at, clock.now() - tick) + tick; at <= now; at += tick) {
    clock.Advance(at);
    ticked_at = at;
    for (auto& [id, watched] : runs) Tick(watched.get(), changes);
  }
  clock.Advance(now);
}

void Observer::Impl::Tick(Watched* watched, std::vector<Incident>* changes) {
  const double now = clock.now();
  watched->ticked_at = now;
  RunState& run = watched->run;
  run.Advance(now);
  const IncidentManager::Moment moment = MomentOf(*watched);
  if (!run.ended() || now - run.ended_at() <= kTicksAfterEnd) {
    Findings findings;
    for (const auto& detector : watched->detectors) {
      detector->OnTick(run, now, &findings);
      if (!findings.empty()) watched->manager.Take(findings.Take(), moment, changes);
    }
  }
  watched->manager.Tick(moment, changes);
  if (!run.ended())
    watched->rests = false;
  else if (!watched->rests && now - run.ended_at() > kSeriesSecondsAfterEnd)
    Rest(watched);
}

void Observer::Impl::TakeBeat(Watched* watched, const Line& line, std::vector<Incident>* changes) {
  RunState& run = watched->run;
  if (run.ended()) return;
  if (--beats_to_count <= 0) {
    beats_to_count = kBeatsOfCount;
    BoundSeries();
    ranks_of_all = 0;
    for (const auto& [id, each] : runs) ranks_of_all += each->run.ranks().size();
  }
  if (!HasRoomFor(*watched, *line.rank)) {
    ++lines_dropped;
    return;
  }
  const std::optional<BeatFacts> facts = run.TakeBeat(line, clock.now(), line.t, kRanksMax);
  if (!facts) {
    ++lines_dropped;
    return;
  }
  const IncidentManager::Moment moment = MomentOf(*watched);
  Findings findings;
  for (const auto& detector : watched->detectors) {
    detector->OnBeat(run, *facts, &findings);
    if (!findings.empty()) watched->manager.Take(findings.Take(), moment, changes);
  }
  if (facts->advanced > 0 && !facts->late) watched->manager.TakeAdvance(*facts, moment, changes);
}

void Observer::Impl::TakeEvent(Watched* watched, const Line& line, std::vector<Incident>* changes) {
  RunState& run = watched->run;
  const bool begins_again = run.BeginsAgain(std::get<Event>(line.what), line.rank);
  const bool is_end = std::holds_alternative<EndEvent>(std::get<Event>(line.what));
  const IncidentManager::Moment moment = MomentOf(*watched);
  Findings findings;
  const auto notify = [&] {
    for (const auto& detector : watched->detectors) {
      detector->OnEvent(run, line, clock.now(), &findings);
      if (!findings.empty()) watched->manager.Take(findings.Take(), moment, changes);
    }
  };
  // The effect of an end depends on the state before it.
  if (is_end && !run.ended()) notify();
  if (begins_again)
    for (const auto& detector : watched->detectors) {
      detector->BeforeRestart(run, &findings);
      if (!findings.empty()) watched->manager.Take(findings.Take(), moment, changes);
    }
  run.TakeEvent(line, clock.now(), line.t);
  if (is_end) full_until = 0;
  if (begins_again)
    for (const auto& detector : watched->detectors) detector->OnRestart();
  if (const auto* stacks = std::get_if<StacksEvent>(&std::get<Event>(line.what)))
    watched->manager.AddStacks(line.rank, *stacks);
  if (!is_end) notify();
}

// A sample of a host or a GPU without a run concerns every run, or those with that rank.
void Observer::Impl::TakeForAll(const Line& line, std::vector<Incident>* changes) {
  for (auto& [id, watched] : runs) {
    if (watched->run.ended() || (line.rank && watched->run.FindRank(*line.rank) == nullptr)) continue;
    watched->run.Advance(clock.now());
    TakeEvent(watched.get(), line, changes);
  }
}

Observer::Observer(const Settings& settings) : impl_(std::make_unique<Impl>(settings)) {}
Observer::~Observer() = default;
Observer::Observer(Observer&&) noexcept = default;
Observer& Observer::operator=(Observer&&) noexcept = default;

template <class Advance>
void Observer::Impl::Observe(const Line& line, const Advance& advance, std::vector<Incident>* changes) {
  const auto* event = std::get_if<Event>(&line.what);
  const auto* step = event == nullptr ? nullptr : std::get_if<ClockStepEvent>(event);
  if (step != nullptr) {
    VirtualClock after = clock;
    after.Set(line.t, step->seconds);
    advance(after.now());
    clock = after;
  } else {
    advance(clock.At(line.t));
    clock.See(line.t);
  }
  if (line.run.empty()) {
    if (event != nullptr && step == nullptr) TakeForAll(line, changes);
    return;
  }
  Watched* watched = Get(line.run, line.t);
  if (watched == nullptr) {
    ++lines_dropped;
    return;
  }
  watched->run.Advance(clock.now());
  watched->run.time().SetSilent(is_learning);
  if (event == nullptr)
    TakeBeat(watched, line, changes);
  else if (step == nullptr)
    TakeEvent(watched, line, changes);
}

void Observer::SetEarliest(double t) {
  impl_->clock.SetEarliest(t);
}

std::vector<Incident> Observer::Observe(const Line& line) {
  std::vector<Incident> changes;
  impl_->Observe(
      line, [&](double now) { impl_->AdvanceTo(now, &changes); }, &changes);
  return changes;
}

void Observer::Learn(const Line& line) {
  std::vector<Incident> changes;
  const auto advance = [&](double now) {
    impl_->clock.Advance(now);
    impl_->ticked_at = std::max(impl_->ticked_at, now);
    Impl::Watched* watched = impl_->Find(line.run);
    if (watched != nullptr && now - watched->ticked_at >= kTickSeconds) impl_->Tick(watched, &changes);
  };
  impl_->is_learning = true;
  impl_->Observe(line, advance, &changes);
  impl_->is_learning = false;
}

void Observer::EndLearning() {
  std::vector<Incident> changes;
  for (auto& [id, watched] : impl_->runs) {
    impl_->Tick(watched.get(), &changes);
    watched->run.ResetCounters();
    watched->run.time().SkipTime();
  }
}

std::vector<Incident> Observer::AdvanceTo(double t) {
  std::vector<Incident> changes;
  if (impl_->clock.begun()) impl_->AdvanceTo(impl_->clock.At(t), &changes);
  return changes;
}

std::vector<Incident> Observer::AdvanceBy(double seconds) {
  std::vector<Incident> changes;
  if (impl_->clock.begun()) impl_->AdvanceTo(impl_->clock.now() + std::max(0.0, seconds), &changes);
  return changes;
}

double Observer::t() const {
  return impl_->clock.WallAt(impl_->clock.now());
}

std::vector<RunSnapshot> Observer::Runs() const {
  std::vector<const Impl::Watched*> ordered;
  for (const auto& [id, watched] : impl_->runs) ordered.push_back(watched.get());
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) { return a->order < b->order; });
  std::vector<RunSnapshot> runs;
  const double now = impl_->clock.now();
  for (const auto* watched : ordered) runs.push_back(watched->run.Snapshot(now, t() - now, /*with_ranks=*/false));
  return runs;
}

std::vector<RunSnapshot> Observer::RunsOfLate(double ended_seconds_max, double silent_seconds_max) const {
  std::vector<RunSnapshot> runs;
  const double now = impl_->clock.now();
  for (const auto& [id, watched] : impl_->runs) {
    const RunState& run = watched->run;
    if (run.ended() && now - run.ended_at() > ended_seconds_max) continue;
    if (now - run.reported_at() > (run.AreAllGone() ? ended_seconds_max : silent_seconds_max)) continue;
    runs.push_back(run.Snapshot(now, t() - now, /*with_ranks=*/true));
  }
  return runs;
}

std::optional<RunSnapshot> Observer::Run(std::string_view id) const {
  const Impl::Watched* watched = impl_->Find(id);
  if (watched == nullptr) return std::nullopt;
  const double now = impl_->clock.now();
  return watched->run.Snapshot(now, t() - now, /*with_ranks=*/true);
}

const RunState* Observer::StateOf(std::string_view run) const {
  const Impl::Watched* watched = impl_->Find(run);
  return watched == nullptr ? nullptr : &watched->run;
}

std::vector<std::string> Observer::SeriesNames(std::string_view run) const {
  std::vector<std::string> names;
  if (const Impl::Watched* watched = impl_->Find(run)) {
    for (const auto& [name, series] : watched->run.series()) names.push_back(name);
    for (const auto& [name, series] : watched->run.time().series()) names.push_back(name);
  }
  return names;
}

std::vector<SeriesPoint> Observer::SeriesOf(std::string_view run, std::string_view name) const {
  const Impl::Watched* watched = impl_->Find(run);
  if (watched == nullptr) return {};
  const auto by_time = watched->run.time().series().find(name);
  if (by_time != watched->run.time().series().end()) return by_time->second.points();
  const auto found = watched->run.series().find(name);
  return found == watched->run.series().end() ? std::vector<SeriesPoint>() : found->second.points();
}

std::vector<Incident> Observer::OpenIncidents() const {
  std::vector<Incident> incidents;
  for (const auto& [id, watched] : impl_->runs)
    for (Incident& incident : watched->manager.OpenIncidents()) incidents.push_back(std::move(incident));
  std::stable_sort(incidents.begin(), incidents.end(),
                   [](const Incident& a, const Incident& b) { return a.opened_t < b.opened_t; });
  return incidents;
}

void Observer::Adopt(const Incident& open) {
  if (Impl::Watched* watched = impl_->Get(open.run, open.t)) watched->manager.Adopt(open, impl_->MomentOf(*watched));
}

void Observer::CountedUntil(std::string_view run, int64_t step) {
  if (Impl::Watched* watched = impl_->Find(run)) watched->run.time().CountedUntil(step);
}

bool Observer::Knows(std::string_view run) const {
  return impl_->Find(run) != nullptr;
}

void Observer::Apply(const Settings& settings) {
  impl_->settings = settings;
  for (auto& [id, watched] : impl_->runs)
    for (const auto& detector : watched->detectors) detector->Apply(settings);
}

int64_t Observer::series_halved() const {
  return impl_->series_halved;
}

int64_t Observer::lines_dropped() const {
  return impl_->lines_dropped;
}

}  // namespace stepwatch::operations
