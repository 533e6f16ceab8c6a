#include "operations/logs/log_lines.h"

#include <limits>

#include "operations/incidents/observer.h"
#include "src/logs/anomalies.h"
#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

// A job of four ranks of which only the logs are known.
struct LoggedJob {
  bool is_monitored = false;
  LogLines log{LogLinesOptions{.is_monitored = [this](const std::string&) { return is_monitored; },
                               .is_open = [this](const std::string& run) { return IsOpen(run); }}};
  Observer observer;
  std::vector<Line> lines;
  std::vector<Incident> changes;
  double t = 1000;

  bool IsOpen(const std::string& run) const {
    const std::optional<RunSnapshot> seen = observer.Run(run);
    return seen && !seen->ended;
  }
  void Take(logs::Record record, RecordOrigin origin = {}) {
    record.observed_t = t;
    origin.run = "job";
    std::vector<Line> taken;
    log.Take(record, origin, &taken);
    Observe(taken);
  }
  void Observe(const std::vector<Line>& more) {
    lines.insert(lines.end(), more.begin(), more.end());
    for (const Line& line : more)
      for (Incident& each : observer.Observe(line)) changes.push_back(std::move(each));
  }
  void Step(int64_t step, int64_t rank, double loss, bool is_late = false) {
    logs::Record record;
    record.rank = rank;
    record.progress =
        logs::Progress{step, false, {{"loss", loss}, {"grad_norm", 1.0 + 0.01 * static_cast<double>(step % 7)}}};
    Take(record, {"", std::nullopt, is_late, false});
  }
  void Train(int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) {
      t += 1;
      for (int64_t rank = 0; rank < 4; ++rank) Step(step, rank, 2.0 + 0.01 * static_cast<double>(step % 5));
    }
  }
  void Wait(double seconds) {
    for (const double end = t + seconds; t < end; t += 1) {
      for (Incident& each : observer.AdvanceTo(t)) changes.push_back(std::move(each));
      std::vector<Line> ends;
      log.Advance(t, &ends);
      Observe(ends);
    }
  }
  const Incident* Opened(IncidentKind kind) const {
    for (const Incident& each : changes)
      if (each.kind == kind && each.state == IncidentState::kOpened) return &each;
    return nullptr;
  }
};

TEST_CASE("a loss of NaN in a log is an incident with its step") {
  LoggedJob job;
  job.Train(1, 60);
  job.t += 1;
  for (int64_t rank = 0; rank < 4; ++rank) job.Step(60, rank, std::numeric_limits<double>::quiet_NaN());
  job.Wait(5);
  REQUIRE(job.Opened(IncidentKind::kLossNonfinite) != nullptr);
  CHECK(job.Opened(IncidentKind::kLossNonfinite)->since_step == 59);
}

TEST_CASE("an exception in a log is an incident with its rank, and ends the run once silence follows") {
  LoggedJob job;
  job.Train(1, 60);
  logs::Record record;
  record.rank = 3;
  record.exception = logs::Exception{"ValueError", "bad shape", "Traceback ..."};
  job.Take(record);
  job.Wait(30);
  REQUIRE(job.Opened(IncidentKind::kException) != nullptr);
  CHECK(job.Opened(IncidentKind::kException)->ranks == std::vector<int64_t>{3});
  CHECK(job.Opened(IncidentKind::kStuck) == nullptr);
  CHECK(job.observer.Run("job")->ended);
}

TEST_CASE("a log that grows no more is an incident of a run that is stuck") {
  LoggedJob job;
  job.Train(1, 60);
  job.Wait(300);
  CHECK(job.Opened(IncidentKind::kStuck) != nullptr);
}

TEST_CASE("lines that are caught up with open no incident of silence") {
  LoggedJob job;
  for (int64_t step = 1; step < 60; ++step) job.Step(step, 0, 2.0, /*is_late=*/true);
  job.Wait(900);
  CHECK(job.changes.empty());
  job.t += 1;
  job.Step(60, 0, 2.0);
  CHECK(job.observer.Run("job")->step == 60);
}

TEST_CASE("an exception in an old log opens no incident, and one since the run was last watched does") {
  LoggedJob job;
  logs::Record record;
  record.exception = logs::Exception{"ValueError", "bad shape", "Traceback ..."};
  job.Take(record, {"", std::nullopt, /*is_late=*/true, false});
  job.Wait(60);
  CHECK(job.changes.empty());
  CHECK_FALSE(job.observer.Run("job").has_value());
  job.Train(1, 60);
  LogLines after_restart(LogLinesOptions{.is_open = [&](const std::string& run) { return job.IsOpen(run); }});
  std::vector<Line> lines;
  record.observed_t = job.t;
  after_restart.Take(record, {"job", 0, /*is_late=*/true, true}, &lines);
  job.Observe(lines);
  job.Wait(30);
  CHECK(job.Opened(IncidentKind::kException) != nullptr);
}

TEST_CASE("a run that hung while stepwatchd was away stands at the step of its last line") {
  LoggedJob job;
  job.Train(1, 60);
  for (int64_t step = 60; step < 90; ++step)
    for (int64_t rank = 0; rank < 4; ++rank) job.Step(step, rank, 2.0, /*is_late=*/true);
  CHECK(job.observer.Run("job")->step == 59);
  job.Wait(10);
  CHECK(job.observer.Run("job")->step == 89);
  job.Wait(300);
  REQUIRE(job.Opened(IncidentKind::kStuck) != nullptr);
  CHECK(job.observer.Run("job")->restarts == 0);
}

TEST_CASE("a job that logs every 500th step is judged by that rhythm") {
  LoggedJob job;
  for (int64_t line = 1; line <= 20; ++line) {
    job.Wait(400);
    for (int64_t rank = 0; rank < 4; ++rank) job.Step(500 * line, rank, 2.0 + 0.01 * static_cast<double>(line % 5));
  }
  job.Wait(1000);
  CHECK(job.changes.empty());
  job.Wait(1000);
  CHECK(job.Opened(IncidentKind::kStuck) != nullptr);
}

TEST_CASE("a log that is read after the job's monitor has reported neither doubles beats nor ends the run") {
  LoggedJob job;
  job.Train(1, 60);
  CHECK(std::get<Beat>(job.lines.back().what).is_of_log);
  job.is_monitored = true;
  job.lines.clear();
  job.Train(60, 70);
  std::vector<Line> lines;
  job.log.EndOfWriters("job", job.t, &lines);
  job.log.Advance(job.t + 1e6, &lines);
  CHECK(job.lines.empty());
  CHECK(lines.empty());
}

TEST_CASE("every anomaly with a meaning of its own is in the catalogue") {
  for (const std::string_view name : AnomaliesOfLogLines()) {
    CAPTURE(name);
    CHECK(logs::AnomalyClassNamed(name) != nullptr);
  }
}

TEST_CASE("a run ends well when no process writes its log any more") {
  LoggedJob job;
  job.Train(1, 60);
  std::vector<Line> lines;
  job.log.EndOfWriters("job", job.t + 1, &lines);
  job.Observe(lines);
  job.Wait(900);
  CHECK(job.changes.empty());
}

}  // namespace
}  // namespace stepwatch::operations
