// The output place of the monitor fails: training goes on, an event reports it, rows wait, and lost rows are counted.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/job.h"
#include "tests/sinks/event_reader.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("an output directory that cannot be made: rows wait, and are all written once it can") {
  Job job(ConfigText({.collect_times = 5}));
  WriteInPlace(job.options.output_dir, "a file where the directory should be");
  job.Start();
  job.TrainSteps(8);
  REQUIRE(job.WaitFor(EventKind::kDegraded, 3));  // the manifest, the history and the rows
  CHECK(job.Count(EventKind::kFinished) <= 1);
  std::filesystem::remove(job.options.output_dir);
  REQUIRE(job.WaitFor(EventKind::kRecovered, 3));
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3, 4, 5});
  CHECK(job.Count(EventKind::kDegraded) == 3);
  CHECK(job.Count(EventKind::kRecovered) == 3);
}

TEST_CASE("event files wait for their directory as CSV files do, and every scalar is there once") {
  Job job(ConfigText({.collect_times = 5}, ", \"format\": \"tensorboard\""));
  job.counts_rows = false;
  WriteInPlace(job.options.output_dir, "a file where the directory should be");
  job.Start();
  job.TrainSteps(8);
  REQUIRE(job.WaitFor(EventKind::kDegraded, 3));
  std::filesystem::remove(job.options.output_dir);
  REQUIRE(job.WaitFor(EventKind::kRecovered, 3));
  job.Close();
  const auto files = sinks::test::EventFiles(job.output_dir);
  REQUIRE(files.size() == 1);
  CHECK(sinks::test::ReadPoints(files[0]).size() == 5 * 4);
  CHECK(job.Events(EventKind::kDrained).at(0).ledger.written == 5 * 4);
}

TEST_CASE("an output directory that never can be made: every row is counted as lost, and the run ends") {
  Job job(ConfigText({.collect_times = 5}));
  WriteInPlace(job.options.output_dir, "a file where the directory should be");
  job.Start();
  job.TrainSteps(8);
  CHECK(job.monitor->Close(std::chrono::seconds(2)).code() == StatusCode::kTimedOut);
  job.monitor.reset();
  job.CheckLedgers();
  const auto drained = job.Events(EventKind::kDrained);
  REQUIRE(drained.size() == 1);
  CHECK(drained[0].ledger.dropped[static_cast<size_t>(DropReason::kSinkFailed)] == 5 * 4);
  CHECK(Contents(job.config_path) == ConfigText({.dynamic_on = false, .collect_times = 5}));
}

TEST_CASE("a small backlog keeps the latest rows of a sink that fails for long") {
  Job job(ConfigText({.collect_times = 20}));
  job.options.backlog_bytes_max = 4 * 4 * sizeof(Record);  // four steps
  WriteInPlace(job.options.output_dir, "a file where the directory should be");
  job.Start();
  job.TrainSteps(16);
  REQUIRE(job.WaitFor(EventKind::kDegraded, 3));
  std::filesystem::remove(job.options.output_dir);
  REQUIRE(job.WaitFor(EventKind::kRecovered, 3));
  job.TrainSteps(6);
  job.Close();
  const Steps steps = job.Steps("grad_reduced");
  REQUIRE_FALSE(steps.empty());
  CHECK(steps.back() == 20);
  CHECK(steps.size() < 20);
}

// A disk with room for `bytes` in each file, as far as this process is concerned.
void LimitFiles(rlim_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

// Exit code 0: the job trained on, got the events of the trouble and of its end, and has all rows.
int TrainOnFullDisk(Job* job) {
  job->Create().ok() && job->Attach().ok() ? void() : ::_exit(10);
  job->TrainSteps(3);
  if (!job->WaitFor(EventKind::kApplied)) return 11;
  LimitFiles(400);
  job->TrainSteps(60);
  if (!job->WaitFor(EventKind::kDegraded)) return 12;
  job->TrainSteps(60);
  LimitFiles(RLIM_INFINITY);
  if (!job->WaitFor(EventKind::kRecovered)) return 13;
  job->TrainSteps(40);
  if (!job->monitor->Close(std::chrono::seconds(10)).ok()) return 14;
  job->output_dir = job->monitor->GetStatus().output_dir;
  job->monitor.reset();
  const auto drained = job->Events(EventKind::kDrained);
  if (drained.size() != 1 || !drained[0].ledger.balanced() || drained[0].ledger.dropped_total() != 0) return 15;
  if (job->Steps("grad_reduced").size() != 150) return 16;
  return job->Rows() == drained[0].ledger.written ? 0 : 17;
}

TEST_CASE("a disk that fills up and gets room again: training goes on and no row is lost") {
  Job job(ConfigText({.collect_times = 150}, ", \"step_count_per_record\": 1000"));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(TrainOnFullDisk(&job));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace stepwatch::testing
