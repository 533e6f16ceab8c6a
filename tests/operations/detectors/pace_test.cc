// Runs and ranks that become slower, and those that do not.

#include "tests/catch.h"
#include "tests/operations/script.h"

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

TEST_CASE("A run that waits longer and longer for data trains more slowly, though most steps take as long as ever") {
  Script script;
  TrainWithWaits(script, 800, 1.5);
  CHECK(OpenedIn(Replay(script.lines)).empty());
  TrainWithWaits(script, 400, 10);
  const std::vector<Incident> changes = Replay(script.lines);
  const std::vector<Incident> opened = OpenedIn(changes);
  REQUIRE(opened.size() == 1);
  CHECK(opened[0].kind == IncidentKind::kThroughputDrop);
  REQUIRE(opened[0].since_step);
  CHECK(std::abs(static_cast<double>(*opened[0].since_step - 800)) <= 20);
  TrainWithWaits(script, 600, 1.5);
  CHECK(IsResolved(Replay(script.lines), opened[0].id));
}

TEST_CASE("A single long wait is no drop of throughput, nor are waits that recur as they did") {
  Script script;
  TrainWithWaits(script, 1000, 4);
  script.t += 90;
  TrainWithWaits(script, 600, 4);
  CHECK(OpenedIn(Replay(script.lines)).empty());
}

TEST_CASE("A run that is half as fast after forty steps is told so") {
  for (const double step_seconds : {0.2, 0.5, 2.0}) {
    Script script;
    script.step_seconds = step_seconds;
    const std::vector<Incident> opened = OpenedIn(Replay(script.Train(40).Train(60, 2).lines));
    REQUIRE(opened.size() == 1);
    CHECK(opened[0].kind == IncidentKind::kThroughputDrop);
  }
}

TEST_CASE("Fast steps that are slow for some seconds are no drop") {
  Script script;
  script.step_seconds = 0.1;
  CHECK(OpenedIn(Replay(script.Train(600).Train(25, 2).Train(300).lines)).empty());
}

TEST_CASE("A rank that takes a third longer is a straggler, and explains why all are slower") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (step > 150) *beat->step_seconds *= rank == 1 ? 1 : 1 / 1.35;
  };
  const std::vector<Incident> opened = OpenedIn(Replay(script.Train(150).Train(300, 1.35).lines));
  REQUIRE(opened.size() == 1);
  CHECK(opened[0].kind == IncidentKind::kStraggler);
  CHECK(opened[0].ranks == std::vector<int64_t>{1});
}

TEST_CASE("A rank that is twice as slow is told within five rounds") {
  Script script;
  script.change = [](int64_t step, int64_t rank, Beat* beat) {
    if (step > 150) *beat->step_seconds *= rank == 1 ? 1 : 0.5;
  };
  script.Train(150);
  const double slow_at = script.t;
  const std::vector<Incident> opened = OpenedIn(Replay(script.Train(100, 2).lines));
  REQUIRE(opened.size() == 1);
  CHECK(opened[0].kind == IncidentKind::kStraggler);
  CHECK(opened[0].t - slow_at <= 8);
}

TEST_CASE("That all ranks are slower waits for no straggler") {
  Script script;
  script.Train(300);
  const double slow_at = script.t;
  const std::vector<Incident> opened = OpenedIn(Replay(script.Train(100, 2).lines));
  REQUIRE(opened.size() == 1);
  CHECK(opened[0].kind == IncidentKind::kThroughputDrop);
  CHECK(opened[0].t - slow_at <= 20);
}

TEST_CASE("Four runs that train for a day, evaluate, save themselves and stumble now and then raise nothing") {
  Observer observer;
  int64_t opened = 0;
  const auto observe = [&](const std::string& run, double t, int64_t rank, int64_t step, RunPhase phase) {
    Beat beat;
    beat.step = step;
    beat.phase = phase;
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
  for (double t = 0; t < 86400; t += 5)
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
