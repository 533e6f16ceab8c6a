// The registry: order, doubles, going back, memory.

#include <cmath>
#include <random>
#include <string>

#include "operations/runs/sample_window.h"
#include "operations/runs/series.h"
#include "operations/runs/virtual_clock.h"
#include "tests/catch.h"
#include "tests/operations/script.h"
#include "tests/random_seed.h"
#include "tests/rounds.h"

namespace stepwatch::operations {
namespace {

using Kinds = std::vector<std::string>;

Kinds KindsOf(const std::vector<Line>& lines) {
  Kinds kinds;
  for (const Incident& incident : OpenedIn(Replay(lines, 300)))
    kinds.push_back(std::string(NameOf(incident.kind)) +
                    (incident.ranks.empty() ? "" : " " + std::to_string(incident.ranks[0])));
  return kinds;
}

TEST_CASE("beats that come late, doubled and out of order give the same incidents", "[random]") {
  std::mt19937_64 random(test::RandomSeed());
  for (int round = 0; round < testing::Rounds(20); ++round) {
    Script script;
    script.change = [&](int64_t step, int64_t rank, Beat* beat) {
      if (round % 2 == 1 && step >= 80 && step < 100 && rank == 1) beat->loss = std::nan("");
    };
    script.Train(150).Event(EndEvent{EndReason::kOk});
    std::vector<Line> shaken;
    std::uniform_real_distribution<double> lateness(0, 2.5);
    for (const Line& line : script.lines) {
      shaken.push_back(line);
      if (!std::holds_alternative<Beat>(line.what) || random() % 4 != 0) continue;
      if (random() % 2 == 0) shaken.push_back(line);
      shaken.back().t += lateness(random);
    }
    const double end = script.lines.back().t;
    for (Line& line : shaken) line.t = std::min(line.t, end);
    std::stable_sort(shaken.begin(), shaken.end(), [](const Line& a, const Line& b) { return a.t < b.t; });
    CHECK(KindsOf(shaken) == KindsOf(script.lines));
  }
}

TEST_CASE("a run goes back to an earlier step without a restart, and its snapshot shows it") {
  Script script;
  script.Train(300);
  script.step -= 200;
  script.Train(20);
  Observer observer;
  for (const Line& line : script.lines) CHECK(observer.Observe(line).empty());
  REQUIRE(observer.Run("run"));
  CHECK(observer.Run("run")->step == 120);
}

TEST_CASE("a snapshot has ranks, phases, the latest numbers and the end with its reason") {
  Script script;
  script.Train(40).Wait(5, {}, RunPhase::kEval);
  Observer observer;
  for (const Line& line : script.lines) (void)observer.Observe(line);
  const RunSnapshot run = *observer.Run("run");
  CHECK(run.phase == RunPhase::kEval);
  CHECK(run.world == 4);
  CHECK(run.ranks.size() == 4);
  CHECK(run.ranks[3].step == 40);
  CHECK(run.step_seconds == Approx(0.5).epsilon(0.1));
  CHECK(observer.SeriesOf("run", "loss").size() == 40);
  (void)observer.Observe(EventLine(script.t + 1, EndEvent{EndReason::kSignal}));
  CHECK(observer.Run("run")->ended);
  CHECK(observer.Run("run")->end_reason == EndReason::kSignal);
}

TEST_CASE("a run has the owner that its last start reports, and keeps it where a start reports none") {
  Observer observer;
  (void)observer.Observe(EventLine(1, StartEvent{1, "host", "ada", "a100"}, 0));
  (void)observer.Observe(EventLine(2, StartEvent{1, "host"}, 1));
  CHECK(observer.Run("run")->owner == "ada");
  CHECK(observer.Run("run")->partition == "a100");
  (void)observer.Observe(EventLine(3, RestartEvent{1, "host", "bob", ""}));
  CHECK(observer.Run("run")->owner == "bob");
}

TEST_CASE("a run has ended, and is lost, while all of its processes are gone, also if no beat of them is known") {
  Script script;
  script.Train(40);
  Observer observer;
  for (const Line& line : script.lines) (void)observer.Observe(line);
  for (int64_t rank = 0; rank < 4; ++rank) {
    CHECK_FALSE(observer.Run("run")->ended);
    (void)observer.Observe(EventLine(script.t + 1, ProcessGoneEvent{}, rank));
  }
  CHECK(observer.Run("run")->ended);
  CHECK(observer.Run("run")->end_reason == EndReason::kLost);
  (void)observer.Observe(EventLine(script.t + 20, RestartEvent{4, "host"}));
  CHECK_FALSE(observer.Run("run")->ended);

  Observer other;
  (void)other.Observe(EventLine(1, StartEvent{2, "host"}));
  (void)other.Observe(EventLine(2, ProcessGoneEvent{}, 0));
  CHECK_FALSE(other.Run("run")->ended);
  (void)other.Observe(EventLine(2, ProcessGoneEvent{}, 1));
  CHECK(other.Run("run")->ended);
}

TEST_CASE("a series of a million steps stays within its points and keeps what was least and most") {
  Series series(512);
  for (int64_t step = 0; step < 1'000'000; ++step) series.Add(step, static_cast<double>(step), step == 777'777 ? 9 : 1);
  CHECK(series.points().size() <= 512);
  double most = 0;
  int64_t count = 0;
  for (const SeriesPoint& point : series.points()) {
    most = std::max(most, point.max);
    count += point.count;
  }
  CHECK(most == 9);
  CHECK(count == 1'000'000);
}

TEST_CASE("runs beyond the limit push out those that have ended, and are dropped while none has") {
  Observer observer;
  for (size_t i = 0; i < kRunsMax + 10; ++i) {
    Line line = EventLine(1, StartEvent{1, ""});
    line.run = "run" + std::to_string(i);
    (void)observer.Observe(line);
  }
  CHECK(observer.Runs().size() == kRunsMax);
  CHECK(observer.lines_dropped() == 10);
  Line end = EventLine(2, EndEvent{});
  end.run = "run0";
  (void)observer.Observe(end);
  Line start = EventLine(3, StartEvent{1, ""});
  start.run = "new";
  (void)observer.Observe(start);
  CHECK(observer.Run("new").has_value());
  CHECK_FALSE(observer.Run("run0").has_value());
}

TEST_CASE("virtual time passes by what the wall clock does, less what it was set by, in either clock") {
  for (const double seconds : {3600.0, -3600.0}) {
    for (const bool is_new : {false, true}) {
      VirtualClock clock;
      clock.See(100);
      clock.See(110);
      clock.Set(is_new ? 111 + seconds : 111, seconds);
      clock.See(112 + seconds);
      CHECK(clock.now() == Approx(112));
      CHECK(clock.WallAt(clock.now()) == Approx(112 + seconds));
    }
  }
}

TEST_CASE("a window keeps the newest samples and has their middle and spread") {
  SampleWindow window(4);
  for (int i = 1; i <= 6; ++i) window.Add(i);
  CHECK(window.Newest(0) == 6);
  CHECK(window.Newest(3) == 3);
  CHECK(window.Last(2, 1) == std::vector<double>{4, 5});
  CHECK(window.Median() == 4.5);
  CHECK(window.Deviation(4.5) == Approx(1.4826));
}

}  // namespace
}  // namespace stepwatch::operations
