// A run that a test writes line by line, and the incidents that an observer makes of it.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "operations/incidents/observer.h"
#include "tests/catch.h"

namespace stepwatch::operations {

inline Line EventLine(double t, Event event, std::optional<int64_t> rank = std::nullopt) {
  return Line{t, "run", rank, std::move(event)};
}

inline Line BeatLine(double t, int64_t rank, Beat beat) {
  return Line{t, "run", rank, std::move(beat)};
}

inline Beat StepBeat(int64_t step, RunPhase phase = RunPhase::kTrain) {
  Beat beat;
  beat.step = step;
  beat.phase = phase;
  return beat;
}

// Half a second a step, four ranks, one beat of each at each step, and the lines that a test adds.
struct Script {
  using Change = std::function<void(int64_t step, int64_t rank, Beat* beat)>;

  int64_t world = 4;
  double step_seconds = 0.5;
  double t = 0;
  int64_t step = 0;
  std::vector<Line> lines;
  Change change = [](int64_t, int64_t, Beat*) {};

  Script() { lines.push_back(EventLine(0, StartEvent{4, "host"})); }

  Script& Train(int64_t steps, double pace = 1) {
    for (const int64_t last = step + steps; step < last;) {
      ++step;
      t += step_seconds * pace;
      for (int64_t rank = 0; rank < world; ++rank) {
        Beat beat = StepBeat(step);
        // A little noise that is the same each time.
        const auto noise = static_cast<double>((step * 37 + rank * 11) % 17 - 8) / 400;
        beat.loss = 2 * (1 + noise);
        beat.grad_norm = 1 + noise;
        beat.lr = 1e-4;
        beat.step_seconds = step_seconds * pace * 0.8 * (1 + noise);
        change(step, rank, &beat);
        lines.push_back(BeatLine(t + 0.001 * static_cast<double>(rank), rank, beat));
      }
    }
    return *this;
  }
  Script& Event(operations::Event event, std::optional<int64_t> rank = std::nullopt) {
    t += 0.01;
    lines.push_back(EventLine(t, std::move(event), rank));
    return *this;
  }
  // Beats without a new step.
  Script& Wait(double seconds, const std::vector<int64_t>& silent = {}, RunPhase phase = RunPhase::kTrain) {
    for (const double end = t + seconds; t < end;) {
      t += 1;
      for (int64_t rank = 0; rank < world; ++rank) {
        if (std::find(silent.begin(), silent.end(), rank) != silent.end()) continue;
        lines.push_back(BeatLine(t, rank, StepBeat(step, phase)));
      }
    }
    return *this;
  }
};

inline std::vector<Incident> Replay(const std::vector<Line>& lines, double tail = 0) {
  Observer observer;
  std::vector<Incident> changes;
  for (const Line& line : lines)
    for (Incident& change : observer.Observe(line)) changes.push_back(std::move(change));
  for (Incident& change : observer.AdvanceBy(tail)) changes.push_back(std::move(change));
  return changes;
}

inline std::vector<Incident> OpenedIn(const std::vector<Incident>& changes) {
  std::vector<Incident> opened;
  for (const Incident& change : changes)
    if (change.state == IncidentState::kOpened) opened.push_back(change);
  return opened;
}

// Requires that the changes open one incident, of this kind and with these ranks, and returns it.
inline Incident RequireOne(const std::vector<Incident>& changes) {
  const std::vector<Incident> opened = OpenedIn(changes);
  REQUIRE(opened.size() == 1);
  return opened.front();
}
inline Incident RequireOne(const std::vector<Incident>& changes, IncidentKind kind) {
  Incident incident = RequireOne(changes);
  CHECK(incident.kind == kind);
  return incident;
}
inline Incident RequireOne(const std::vector<Incident>& changes, IncidentKind kind, const std::vector<int64_t>& ranks) {
  Incident incident = RequireOne(changes, kind);
  CHECK(incident.ranks == ranks);
  return incident;
}

inline bool IsResolved(const std::vector<Incident>& changes, const std::string& id) {
  return std::any_of(changes.begin(), changes.end(), [&](const Incident& change) {
    return change.id == id && change.state == IncidentState::kResolved;
  });
}

}  // namespace stepwatch::operations
