// Runs and ranks that become slower, and those that do not.

#include <cmath>
#include <random>

#include "tests/catch.h"
#include "tests/operations/script.h"
#include "tests/rounds.h"

namespace stepwatch::operations {
namespace {

// Trains with a longer wait at each tenth step.
Script& TrainWithWaits(Script& script, int64_t steps, double wait) {
  for (int64_t step = 0; step < steps; step += 10) {
    script.Train(9);
    script.t += wait;
    script.Train(1);
  }
  return script;
}

TEST_CASE("a run that waits longer and longer for data trains more slowly, though most steps take as long as ever") {
  Script script;
  TrainWithWaits(script, 800, 1.5);
  CHECK(OpenedIn(Replay(script.lines)).empty());
  TrainWithWaits(script, 400, 10);
  const std::vector<Incident> changes = Replay(script.lines);
  const Incident incident = RequireOne(changes, IncidentKind::kThroughputDrop);
  REQUIRE(incident.since_step);
  CHECK(std::abs(static_cast<double>(*incident.since_step - 800)) <= 20);
  TrainWithWaits(script, 600, 1.5);
  CHECK(IsResolved(Replay(script.lines), incident.id));
}

TEST_CASE("a single long wait is no drop of throughput, nor are waits that recur as they did") {
  Script script;
  TrainWithWaits(script, 1000, 4);
  script.t += 90;
  TrainWithWaits(script, 600, 4);
  CHECK(OpenedIn(Replay(script.lines)).empty());
}

TEST_CASE("a run that is half as fast after forty steps is reported") {
  for (const double step_seconds : {0.2, 0.5, 2.0}) {
    Script script;
    script.step_seconds = step_seconds;
    RequireOne(Replay(script.Train(40).Train(60, 2).lines), IncidentKind::kThroughputDrop);
  }
}

TEST_CASE("a run that is slow again as soon as it has recovered has a second incident") {
  for (int64_t well = 20; well < 40; well += 5) {
    Script script;
    script.step_seconds = 0.5;
    const std::vector<Incident> opened =
        OpenedIn(Replay(script.Train(600).Train(100, 2).Train(well).Train(200, 2).lines));
    CHECK(opened.size() <= 2);
    CHECK(opened.front().kind == IncidentKind::kThroughputDrop);
    if (well >= 35) CHECK(opened.size() == 2);
  }
}

TEST_CASE("some slow steps that are over when enough of them were seen are no drop") {
  const auto opened = [](double step_seconds, int64_t before, int64_t slow_steps, double pace) {
    Script script;
    script.step_seconds = step_seconds;
    return OpenedIn(Replay(script.Train(before).Train(slow_steps, pace).Train(300).lines)).size();
  };
  for (int64_t before = 300; before < 305; ++before) CHECK(opened(1, before, 6, 2.4) == 0);
  CHECK(opened(0.1, 600, 25, 2) == 0);
  CHECK(opened(1, 300, 3, 40) == 0);  // compiles anew
}

TEST_CASE("a rank that takes a third longer is a straggler, and explains why all are slower") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (step > 150) *beat->step_seconds *= rank == 1 ? 1 : 1 / 1.35;
  };
  RequireOne(Replay(script.Train(150).Train(300, 1.35).lines), IncidentKind::kStraggler, {1});
}

TEST_CASE("a rank that becomes slow after a few rounds was faster before: it is reported, with the last good step") {
  Script script;
  script.step_seconds = 20;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (rank == 1 && step > 7) *beat->step_seconds *= 1.35;
  };
  const Incident incident = RequireOne(Replay(script.Train(40).lines), IncidentKind::kStraggler, {1});
  REQUIRE(incident.since_step);
  CHECK(std::abs(static_cast<double>(*incident.since_step - 7)) <= 1);

  Script uneven;
  uneven.step_seconds = 20;
  uneven.change = [](int64_t, int64_t rank, Beat* beat) {
    if (rank == 1) *beat->step_seconds *= 1.35;
  };
  CHECK(OpenedIn(Replay(uneven.Train(40).lines)).empty());
}

TEST_CASE(
    "waits of all ranks, that sparse beats of some report more often than those of others, make none a straggler") {
  Script script;
  script.world = 8;
  script.lines = {EventLine(0, StartEvent{8, "host"})};
  double step_ends = 0;
  double own = 0.5;
  const auto beats = [&](double until, double wait) {
    for (; script.t < until; script.t += 1) {
      while (step_ends <= script.t) {
        ++script.step;
        own = script.step % 10 == 0 ? 0.5 + wait : 0.5;
        step_ends += own;
      }
      for (int64_t rank = 0; rank < 8; ++rank) {
        if (static_cast<int64_t>(script.t) % 10 != (rank < 3 ? 0 : 5)) continue;
        Beat beat = StepBeat(script.step);
        beat.step_seconds = own;
        script.lines.push_back(BeatLine(script.t + 0.01 * static_cast<double>(rank), rank, beat));
      }
    }
  };
  beats(400, 0);
  beats(1000, 5);
  RequireOne(Replay(script.lines), IncidentKind::kThroughputDrop);
}

TEST_CASE("a run whose pace varies is as fast as it was when it varies as it did") {
  Script script;
  const auto train = [&](int64_t steps, double pace) {
    for (int64_t step = 0; step < steps; step += 5) script.Train(5, pace * (step % 10 == 0 ? 0.9 : 1.25));
  };
  train(600, 1);
  train(200, 3);
  const Incident incident = RequireOne(Replay(script.lines), IncidentKind::kThroughputDrop);
  train(200, 1);
  CHECK(IsResolved(Replay(script.lines), incident.id));
}

TEST_CASE("a rank that is twice as slow is reported within five rounds") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (step > 150) *beat->step_seconds *= rank == 1 ? 1 : 0.5;
  };
  script.Train(150);
  const double slow_at = script.t;
  const Incident incident = RequireOne(Replay(script.Train(100, 2).lines), IncidentKind::kStraggler);
  CHECK(incident.t - slow_at <= 8);
}

TEST_CASE("that all ranks are slower waits for no straggler") {
  Script script;
  script.Train(300);
  const double slow_at = script.t;
  const Incident incident = RequireOne(Replay(script.Train(100, 2).lines), IncidentKind::kThroughputDrop);
  CHECK(incident.t - slow_at <= 20);
}

TEST_CASE(
    "a batch that grows in stages or at each step, early or late, makes no drop while tokens a second do not fall") {
  struct Growth {
    const char* name;
    std::function<double(int64_t)> tokens;
    double power;  // of the time of a step
  };
  const auto in_stages = [](std::vector<double> stages, int64_t steps) {
    return [stages, steps](int64_t step) {
      return stages[std::min<size_t>(static_cast<size_t>(step / steps), stages.size() - 1)];
    };
  };
  const auto evenly = [](double first, double last) {
    return [=](int64_t step) { return first + (last - first) * std::min(1.0, static_cast<double>(step) / 600); };
  };
  const Growth growths[] = {{"twice, early", in_stages({1, 2}, 60), 0.65},
                            {"twice, late", in_stages({1, 1, 2}, 200), 0.65},
                            {"four times", in_stages({1, 1, 1, 4}, 120), 0.5},
                            {"in sixteen stages", in_stages({1, 2, 3, 4, 5, 6, 7, 8}, 80), 1},
                            {"from next to nothing", evenly(0.25, 16), 1},
                            {"from next to nothing, and faster", evenly(0.25, 8), 0.8},
                            {"down and up again", in_stages({2, 1, 2, 4}, 150), 0.9}};
  for (const Growth& growth : growths) {
    INFO(growth.name);
    Script script;
    script.change = [&](int64_t step, int64_t, Beat* beat) { beat->tokens = std::round(4096 * growth.tokens(step)); };
    const auto train = [&](double slower) {
      script.Train(1, slower * std::pow(growth.tokens(script.step + 1), growth.power));
    };
    while (script.step < 800) train(1);
    CHECK(OpenedIn(Replay(script.lines)).empty());
    while (script.step < 950) train(2);
    CHECK(OpenedIn(Replay(script.lines)).size() == 1);
  }
}

TEST_CASE("tokens that count all so far do not change with a step, and half of the tokens of a step are a drop") {
  Script counted;
  counted.change = [](int64_t step, int64_t, Beat* beat) { beat->tokens = 4096.0 * static_cast<double>(step); };
  CHECK(OpenedIn(Replay(counted.Train(150).Train(100, 2).lines)).size() == 1);

  Script halved;
  halved.change = [](int64_t step, int64_t, Beat* beat) { beat->tokens = step > 150 ? 2048 : 4096; };
  CHECK(OpenedIn(Replay(halved.Train(150).Train(100).lines)).size() == 1);
}

TEST_CASE("a hiccup that lies between two sparse beats is no drop") {
  for (double hiccup_at = 600; hiccup_at < 605; hiccup_at += 0.5) {
    std::vector<Line> lines;
    for (int64_t beat_number = 0; beat_number < 200; ++beat_number) {
      const double t = 5.0 * static_cast<double>(beat_number);
      lines.push_back(BeatLine(t + 0.01, beat_number % 4,
                               StepBeat(static_cast<int64_t>((t - std::clamp(t - hiccup_at, 0.0, 7.0)) / 0.5))));
    }
    CHECK(OpenedIn(Replay(lines)).empty());
  }
}

TEST_CASE("a drop of throughput is over within twenty-five steps of the old pace, and reported once") {
  Script script;
  script.Train(300).Train(150, 2).Train(25);
  const std::vector<Incident> changes = Replay(script.lines);
  CHECK(IsResolved(changes, RequireOne(changes).id));
  CHECK(OpenedIn(Replay(script.Train(200).lines)).size() == 1);
}

TEST_CASE("ranks whose times vary by a quarter anyway have no straggler among them") {
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, 0.25);
    Script script;
    script.world = 8;
    script.step_seconds = 1;
    script.change = [&](int64_t, int64_t, Beat* beat) { *beat->step_seconds *= std::exp(noise(random)); };
    CHECK(OpenedIn(Replay(script.Train(400).lines)).empty());
  }
}

TEST_CASE(
    "a rank that stumbles now and then is no straggler, and one that is slow half of the time has few incidents") {
  const auto opened = [](int64_t period, int64_t slow_steps) {
    Script script;
    script.step_seconds = 1;
    script.change = [=](int64_t step, int64_t rank, Beat* beat) {
      if (rank == 2 && step > 120 && step % period < slow_steps) *beat->step_seconds *= 2;
    };
    return OpenedIn(Replay(script.Train(420).lines)).size();
  };
  CHECK(opened(100, 5) == 0);
  CHECK(opened(20, 10) <= 2);
}

TEST_CASE("checkpoints may come later once, and at other intervals after a restart") {
  Script late;
  for (const int64_t steps : {75, 72, 65, 112, 60}) late.Train(steps).Event(CheckpointEvent{late.step});
  CHECK(OpenedIn(Replay(late.lines)).empty());

  Script restarted;
  for (int i = 0; i < 5; ++i) restarted.Train(60).Event(CheckpointEvent{restarted.step});
  restarted.Event(RestartEvent{4, "host"});
  for (int i = 0; i < 3; ++i) restarted.Train(150).Event(CheckpointEvent{restarted.step});
  CHECK(OpenedIn(Replay(restarted.lines)).empty());
}

TEST_CASE("four runs that train for a day, evaluate, save themselves and stumble now and then raise nothing",
          "[slow]") {
  Observer observer;
  int64_t opened = 0;
  const auto observe = [&](const std::string& run, double t, int64_t rank, int64_t step, RunPhase phase) {
    Beat beat = StepBeat(step, phase);
    const auto noise = static_cast<double>((step * 37 + rank * 11) % 17 - 8) / 300;
    beat.loss = (2 + 6 / (1 + static_cast<double>(step) / 400)) * (1 + noise);
    beat.grad_norm = 1 + 3 * noise;
    beat.step_seconds = 4 * (1 + noise);
    for (const Incident& change : observer.Observe({t, run, rank, beat}))
      opened += change.state == IncidentState::kOpened ? 1 : 0;
  };
  struct Job {
    std::string run;
    int64_t step = 0;
    double busy_until = 0;
    RunPhase phase = RunPhase::kTrain;
  };
  std::vector<Job> jobs = {{"a"}, {"b"}, {"c"}, {"d"}};
  for (double t = 0; t < testing::Rounds(86400.0); t += 5)
    for (size_t i = 0; i < jobs.size(); ++i) {
      Job& job = jobs[i];
      const auto number = static_cast<int64_t>(i);
      if (t >= job.busy_until) {
        ++job.step;
        job.phase = job.step % 450 == 225 ? RunPhase::kEval
                    : job.step % 200 == 0 ? RunPhase::kCheckpoint
                                          : RunPhase::kTrain;
        const double busy = job.phase == RunPhase::kEval ? 240 : job.phase == RunPhase::kCheckpoint ? 60 : 0;
        const double stumble = (job.step + 13 * number) % 97 == 0 ? 45 : 0;
        job.busy_until = t + busy + stumble;
      }
      for (int64_t rank = 0; rank <= number; ++rank)
        observe(job.run, t + 0.01 * static_cast<double>(rank), rank, job.step, job.phase);
    }
  CHECK(opened == 0);
}

}  // namespace
}  // namespace stepwatch::operations
