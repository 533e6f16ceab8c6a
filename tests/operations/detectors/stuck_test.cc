// Ranks that stand still, how soon they are reported, and pauses that are no standstill.

#include "tests/catch.h"
#include "tests/operations/script.h"

namespace stepwatch::operations {
namespace {

// Four ranks that beat each `beat_seconds`, one after the other, whatever happens.
struct Heartbeats {
  double beat_seconds = 5;
  double step_seconds = 0.5;
  double t = 0;
  double steps = 0;
  RunPhase phase = RunPhase::kTrain;
  std::vector<Line> lines = {EventLine(0, StartEvent{4, "host"})};

  Heartbeats& Pass(double seconds, bool trains, const std::vector<int64_t>& silent = {}) {
    for (const double end = t + seconds; t < end;) {
      t += beat_seconds / 4;
      if (trains) steps += beat_seconds / 4 / step_seconds;
      const auto rank = static_cast<int64_t>(t / (beat_seconds / 4)) % 4;
      if (std::find(silent.begin(), silent.end(), rank) != silent.end()) continue;
      lines.push_back(BeatLine(t, rank, StepBeat(static_cast<int64_t>(steps), phase)));
    }
    return *this;
  }
  Heartbeats& Event(operations::Event event) {
    lines.push_back(EventLine(t, std::move(event)));
    return *this;
  }
};

const std::vector<int64_t> kAll = {0, 1, 2, 3};

TEST_CASE("a silent rank among beats of five seconds is reported within two of them and the promised time") {
  Heartbeats script;
  script.Pass(200, true);
  const double stood_still_at = script.t;
  const Incident incident = RequireOne(Replay(script.Pass(100, false, {2}).lines));
  CHECK(incident.ranks == std::vector<int64_t>{2});
  CHECK(incident.t - stood_still_at <= 3 * 0.5 + 5 + 2 * script.beat_seconds);
}

TEST_CASE("ranks that fall silent together are all named, though the turn of some comes later") {
  Script script;
  script.world = 8;
  script.step_seconds = 2;
  script.lines = {EventLine(0, StartEvent{8, "host"})};
  const int64_t turns[] = {0, 1, 2, 4, 5, 6, 8, 3};
  const auto beats = [&](double until, double still_at, int64_t silent_from) {
    for (; script.t < until; script.t += 1)
      for (int64_t rank = 0; rank < 8; ++rank) {
        if (static_cast<int64_t>(script.t) % 10 != turns[rank] || rank >= silent_from) continue;
        script.lines.push_back(
            BeatLine(script.t, rank, StepBeat(static_cast<int64_t>(std::min(script.t, still_at) / 2))));
      }
  };
  beats(204, 204, 8);
  beats(260, 204, 5);
  const std::vector<Incident> changes = Replay(script.lines);
  CHECK(RequireOne(changes).ranks.front() == 5);
  CHECK(changes.back().ranks == std::vector<int64_t>{5, 6, 7});
}

TEST_CASE("where all fall silent at once no rank is named for a step that its last beat could not yet have") {
  for (double seconds = 200; seconds < 220; seconds += 1.25) {
    Heartbeats script;
    script.step_seconds = 6;
    CHECK(RequireOne(Replay(script.Pass(seconds, true).lines, 300)).ranks.empty());
  }
}

TEST_CASE("a run with steps of a minute may stumble for three") {
  Script script;
  script.step_seconds = 60;
  for (int i = 0; i < 3; ++i) {
    script.Train(40);
    script.t += 180;
  }
  CHECK(OpenedIn(Replay(script.Train(10).lines)).empty());
}

TEST_CASE("a run that began within a minute before its restarts is stuck when it has not after ten") {
  Script script;
  for (int i = 0; i < 2; ++i) script.Wait(40, {}, RunPhase::kInit).Train(60).Event(RestartEvent{4, "host"});
  const double began_at = script.t;
  const Incident incident = RequireOne(Replay(script.Wait(700, {}, RunPhase::kInit).lines), IncidentKind::kStuck);
  CHECK(incident.t - began_at < 600);
}

TEST_CASE("a time without any report is no evidence against a rank") {
  for (const double seconds : {30.0, 80.0, 110.0}) {
    Heartbeats script;
    script.Pass(200, true).Pass(seconds, true, kAll).Pass(100, true);
    CHECK(OpenedIn(Replay(script.lines)).empty());
  }
}

TEST_CASE("without any more reports the run stands still after two minutes, and no rank is named") {
  Heartbeats script;
  script.Pass(200, true);
  CHECK(RequireOne(Replay(script.lines, 300)).ranks.empty());
}

TEST_CASE("a standstill in which ranks beat less often than at their steps names no rank") {
  Script script;
  for (int i = 0; i < 6; ++i) {
    script.Train(60);
    for (const int64_t rank : kAll) {
      Beat beat = StepBeat(script.step);
      const double at = script.t + 4.5 + 0.12 * static_cast<double>(rank);
      script.lines.push_back(BeatLine(at, rank, beat));
      script.lines.push_back(BeatLine(at + 5, rank, beat));
    }
    std::stable_sort(script.lines.begin(), script.lines.end(), [](const Line& a, const Line& b) { return a.t < b.t; });
    script.t += 14;
  }
  CHECK(OpenedIn(Replay(script.Train(20).lines)).empty());
}

TEST_CASE("a first evaluation may take an hour as long as its ranks report, and one that falls silent is reported") {
  Heartbeats script;
  script.Pass(200, true);
  script.phase = RunPhase::kEval;
  script.Pass(3500, false);
  CHECK(OpenedIn(Replay(script.lines)).empty());
  RequireOne(Replay(script.lines, 400), IncidentKind::kStuck);
}

TEST_CASE("an evaluation may take eight times as long as the only one before") {
  Script script;
  script.Train(60).Wait(60, {}, RunPhase::kEval).Train(60).Wait(480, {}, RunPhase::kEval).Train(60);
  CHECK(OpenedIn(Replay(script.lines)).empty());
}

TEST_CASE("a rank is not behind because its beat after the standstill of a compilation has not come yet") {
  std::vector<Line> lines = {EventLine(0, StartEvent{16, "host"})};
  // Sixteen ranks beat each ten seconds, one after the other. The second step compiles for 70 s; all others are fast.
  const auto step_at = [](double t) { return t < 20 ? 0 : t < 90 ? 1 : 2 + static_cast<int64_t>((t - 90) / 0.2); };
  for (double t = 0; t < 200; t += 0.625)
    lines.push_back(BeatLine(t, static_cast<int64_t>(t / 0.625) % 16, StepBeat(step_at(t))));
  CHECK(OpenedIn(Replay(lines)).empty());
}

TEST_CASE("steps of minutes are no standstill, from the first one on") {
  Script script;
  script.step_seconds = 200;
  CHECK(OpenedIn(Replay(script.Train(30).lines)).empty());
}

TEST_CASE("a rank that stops for the second time is reported as soon as at the first") {
  Script script;
  script.Train(100).Wait(60, {1}).Train(200);
  const double stood_still_at = script.t;
  const std::vector<Incident> opened = OpenedIn(Replay(script.Wait(60, {1}).lines));
  REQUIRE(opened.size() == 2);
  CHECK(opened[1].t - stood_still_at <= 3 * script.step_seconds + 5);
}

TEST_CASE("a standstill that recurs becomes a habit, and is not reported any more") {
  Script script;
  for (int i = 0; i < 6; ++i) script.Train(100).Wait(20, {1});
  CHECK(OpenedIn(Replay(script.Train(10).lines)).size() <= 2);
}

TEST_CASE("a run that begins quietly has half an hour, also where its first steps compile") {
  for (const double quiet : {400.0, 1200.0, 1750.0}) {
    Script script;
    script.t += quiet;
    script.Train(3);
    script.t += quiet;
    CHECK(OpenedIn(Replay(script.Train(50).lines)).empty());
  }
}

TEST_CASE("a standstill of the whole run that comes again is reported once, and a longer one is a fault") {
  Script script;
  for (int i = 0; i < 4; ++i) {
    script.Train(100);
    script.t += 200;
  }
  const auto silent_since = [&] { return script.t - 200; };
  CHECK(OpenedIn(Replay(script.Train(20).lines)).size() == 1);
  script.t += 200;
  const std::vector<Incident> opened = OpenedIn(Replay(script.lines, 1000));
  REQUIRE(opened.size() == 2);
  CHECK(opened[1].t - silent_since() <= 3 * 200 + 2);
}

TEST_CASE("a hang in an evaluation is reported within three times the longest one and a quarter of an hour") {
  for (const double longest : {60.0, 510.0, 1200.0}) {
    Script script;
    script.Train(60).Wait(longest, {}, RunPhase::kEval).Train(60);
    const double hangs_at = script.t;
    CHECK(RequireOne(Replay(script.Wait(5000, {}, RunPhase::kEval).lines)).t - hangs_at <= 3 * longest + 905);
  }
}

TEST_CASE("beats that report a pause prolong no pause that has expired") {
  Heartbeats script;
  script.Pass(200, true).Event(PauseEvent{100.0});
  script.phase = RunPhase::kPaused;
  CHECK(OpenedIn(Replay(script.Pass(200, false).lines)).empty());
  RequireOne(Replay(script.Pass(100, false).lines), IncidentKind::kStuck);
}

TEST_CASE("after a restart a rank that stops is reported by the pace from before, though few steps have ended since") {
  Heartbeats script;
  script.Pass(200, true).Event(RestartEvent{}).Pass(20, true);
  const double stood_still_at = script.t;
  const Incident incident = RequireOne(Replay(script.Pass(60, false, {3}).lines));
  CHECK(incident.ranks == std::vector<int64_t>{3});
  CHECK(incident.t - stood_still_at <= 3 * 0.5 + 5 + 2 * script.beat_seconds);
}

TEST_CASE("one beat that is lost or late in a standstill names no rank, whatever the time between beats") {
  for (const double beat_seconds : {1.0, 2.0, 5.0, 10.0, 15.0}) {
    Heartbeats script;
    script.beat_seconds = beat_seconds;
    script.Pass(400, true).Pass(beat_seconds, false, {2}).Pass(60, false).Pass(100, true);
    CHECK(OpenedIn(Replay(script.lines)).empty());
  }
}

TEST_CASE("a rank that is alone in a phase is the one for which the others wait") {
  for (const RunPhase phase : {RunPhase::kCheckpoint, RunPhase::kEval}) {
    Script script;
    for (int i = 0; i < 3; ++i) script.Train(60).Wait(5, {1, 2, 3}, phase);
    script.Train(60);
    for (int i = 0; i < 400; ++i) script.Wait(1, {0}).Wait(1, {1, 2, 3}, phase);
    CHECK(RequireOne(Replay(script.lines)).ranks == std::vector<int64_t>{0});
  }
}

TEST_CASE("the rank whose GPU does nothing while those of its peers spin is named") {
  Script script;
  script.Train(60);
  for (int i = 0; i < 30; ++i) {
    for (int64_t rank = 0; rank < 4; ++rank)
      script.Event(GpuEvent{"GPU-" + std::to_string(rank), "utilization", rank == 2 ? 0.0 : 100.0}, rank);
    script.Wait(5);
  }
  CHECK(RequireOne(Replay(script.lines)).ranks == std::vector<int64_t>{2});
}

TEST_CASE("a run without reports after its start, or its restart, is stuck") {
  Script started;
  CHECK(OpenedIn(Replay(started.lines, 1790)).empty());
  CHECK(OpenedIn(Replay(started.lines, 1810)).size() == 1);
  Script restarted;
  restarted.Train(60).Event(RestartEvent{4, "host"});
  RequireOne(Replay(restarted.lines, 600), IncidentKind::kStuck);
}

TEST_CASE("what peers have finished a silent rank has, too, though its last beat is of before") {
  Heartbeats script;
  script.beat_seconds = 10;
  script.step_seconds = 0.05;
  script.Pass(400, true).Pass(2.5, true, {1});
  const auto finished = static_cast<int64_t>(script.steps);
  const Incident incident = RequireOne(Replay(script.Pass(100, false, {1}).lines));
  CHECK(incident.ranks == std::vector<int64_t>{1});
  CHECK(incident.since_step == finished);
}

TEST_CASE("ranks whose beats come late all along hold up no rank, at the last step either") {
  std::vector<Line> lines = {EventLine(0, StartEvent{4, "host"})};
  for (int64_t step = 1; step <= 400; ++step)
    for (int64_t rank = 0; rank < 4; ++rank) {
      Beat beat = StepBeat(step);
      lines.push_back(
          BeatLine(static_cast<double>(step) + (rank >= 2 ? 25 + static_cast<double>(step % 9) : 0), rank, beat));
    }
  for (double t = 401; t < 490; ++t)
    for (int64_t rank = 0; rank < 4; ++rank)
      if (rank < 2 || t > 429) lines.push_back(BeatLine(t, rank, StepBeat(400)));
  lines.push_back(EventLine(490, EndEvent{EndReason::kOk}));
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.t < b.t; });
  CHECK(OpenedIn(Replay(lines)).empty());
}

}  // namespace
}  // namespace stepwatch::operations
