// Paces that vary in ways of their own: hiccups, batches and sequences that change, checkpoints by the clock.

#include <cmath>
#include <random>

#include "tests/catch.h"
#include "tests/operations/script.h"
#include "tests/rounds.h"

namespace stepwatch::operations {
namespace {

TEST_CASE("hiccups that recur by chance are no drop of throughput, however they fall together", "[slow]") {
  for (const double share : {0.05, 0.1, 0.2}) {
    for (unsigned seed = 1; seed <= testing::Rounds(4U); ++seed) {
      CAPTURE(share, seed);
      std::mt19937_64 random(seed);
      Script script;
      script.step_seconds = 1;
      for (int step = 0; step < testing::Rounds(2000, 2); ++step)
        script.Train(1, static_cast<double>(random() % 10000) < 10000 * share ? 5 : 1);
      CHECK(OpenedIn(Replay(script.lines)).empty());
      // Half of the pace is a drop among hiccups, too.
      for (int step = 0; step < 400; ++step)
        script.Train(1, static_cast<double>(random() % 10000) < 10000 * share ? 6 : 2);
      RequireOne(Replay(script.lines), IncidentKind::kThroughputDrop);
    }
  }
}

TEST_CASE("tokens that swing with the time of a step are no count, and the pace is theirs") {
  Script script;
  script.step_seconds = 1;
  const auto swing = [](int64_t step) { return 1 + 0.4 * std::sin(static_cast<double>(step) / 30); };
  script.change = [&](int64_t step, int64_t, Beat* beat) { beat->tokens = 4096 * swing(step); };
  while (script.step < 1500) script.Train(1, swing(script.step + 1));
  CHECK(OpenedIn(Replay(script.lines)).empty());
}

TEST_CASE("batches that grow make slower steps of more samples, which is no drop") {
  Script script;
  const auto size = [](int64_t step) { return step <= 200 ? 1.0 : step <= 400 ? 2.0 : 4.0; };
  script.change = [&](int64_t step, int64_t, Beat* beat) { beat->samples = 32 * size(step); };
  while (script.step < 600) script.Train(1, size(script.step + 1));
  CHECK(OpenedIn(Replay(script.lines)).empty());
  const Incident incident = RequireOne(Replay(script.Train(100, 8).lines));
  const EvidenceValue* measure = incident.evidence.Find("measure");
  REQUIRE(measure != nullptr);
  CHECK(std::get<std::string>(*measure) == "samples_per_second");
}

TEST_CASE("a rank that is slow from the start is a straggler for as long: among few, if it is very slow") {
  for (const auto& [world, slower] : {std::pair(8, 1.4), std::pair(4, 1.8)}) {
    Script script;
    script.world = world;
    script.lines = {EventLine(0, StartEvent{world, "host"})};
    script.change = [slower = slower](int64_t, int64_t rank, Beat* beat) {
      *beat->step_seconds *= rank == 3 ? slower : 1;
    };
    const std::vector<Incident> changes = Replay(script.Train(300).lines);
    const Incident incident = RequireOne(changes, IncidentKind::kStraggler, {3});
    CHECK_FALSE(IsResolved(changes, incident.id));
    const EvidenceValue* ratio = incident.evidence.Find("ratio");
    REQUIRE(ratio != nullptr);
    CHECK(std::get<double>(*ratio) == Approx(slower).epsilon(0.1));
  }
}

TEST_CASE("a rank that happened to be fast at first is no straggler when it is as slow as the others") {
  std::mt19937_64 random(5);
  Script script;
  script.change = [&](int64_t step, int64_t rank, Beat* beat) {
    const double noise = 0.7 + 0.6 * static_cast<double>(random() % 1000) / 1000;
    *beat->step_seconds *= noise * (rank != 1 ? 1 : step <= 60 ? 0.45 : step / 24 % 2 == 0 ? 1.1 : 1.0);
  };
  CHECK(OpenedIn(Replay(script.Train(400).lines)).empty());
}

TEST_CASE("checkpoints by the clock are not overdue because steps have become faster") {
  Script script;
  script.step_seconds = 1;
  for (int i = 0; i < 6; ++i) script.Train(100).Event(CheckpointEvent{script.step});
  for (int i = 0; i < 3; ++i) script.Train(180, 100.0 / 180).Event(CheckpointEvent{script.step});
  CHECK(OpenedIn(Replay(script.lines)).empty());
  CHECK(OpenedIn(Replay(script.Train(400, 100.0 / 180).lines)).size() == 1);
}

TEST_CASE("a checkpoint that may have passed between two beats is not overdue") {
  const auto opened_after = [](int missed) {
    std::vector<Line> lines = {EventLine(0, StartEvent{1, "host"})};
    for (int64_t beat_number = 0; beat_number < 400; ++beat_number) {
      Beat beat;
      beat.step = 20 * beat_number;
      const int64_t last = 200 + 20 * missed;
      const bool saves = beat_number % 20 == 0 && (beat_number <= 200 || beat_number >= last + 20);
      beat.phase = saves && beat_number > 0 ? RunPhase::kCheckpoint : RunPhase::kTrain;
      lines.push_back(BeatLine(10.0 * static_cast<double>(beat_number), 0, beat));
    }
    return OpenedIn(Replay(lines)).size();
  };
  CHECK(opened_after(1) == 0);
  CHECK(opened_after(3) == 1);
}

}  // namespace
}  // namespace stepwatch::operations
