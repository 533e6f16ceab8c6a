// "on_restart": "once" while the histories of earlier starts are being read.
#include <filesystem>
#include <memory>
#include <string>

#include "src/base/sha256.h"
#include "src/output/history_file.h"
#include "tests/reload/process_without_threads.h"

namespace stepwatch::reload {
namespace {

using testing::ConfigText;

const std::string kConfig = ConfigText({.collect_times = 5}, ", \"stepwatch\": {\"on_restart\": \"once\"}");
const std::string kOther = kConfig + "// another text\n";

// An earlier start has done kConfig.
void LeaveHistory(Options* options) {
  options->job_id = "job 7";
  output::HistoryEntry entry;
  entry.line.time = "2026-11-22T17:34:39.123Z";
  entry.line.run_id = "6170f1c3";
  entry.line.job_id = options->job_id;
  entry.line.config_path = options->config_path;
  entry.line.outcome = "finished";
  entry.line.sha256 = base::Sha256Hex(kConfig);
  entry.line.step = 1200;
  REQUIRE(output::AppendHistory(options->output_dir + "/first", {entry}).ok());
}

void LetGo(Process* process) {
  process->output_io.LetGo();
  process->loop.poll();
}

TEST_CASE("no window begins before the histories are read, and a window that was done is written back") {
  Process process(kConfig, LeaveHistory, true);
  CHECK_FALSE(process.reloader.looked());
  CHECK(process.reloader.state() == RunState::kIdle);
  process.Refresh();  // the same bytes
  CHECK(process.Count(EventKind::kArmed) == 0);
  LetGo(&process);
  CHECK(process.reloader.looked());
  CHECK(process.Count(EventKind::kNotBegun) == 1);
  CHECK(process.Count(EventKind::kArmed) == 0);
  process.loop.poll();
  CHECK(process.Count(EventKind::kWroteBack) == 1);
  CHECK(process.Config() ==
        ConfigText({.dynamic_on = false, .collect_times = 5}, ", \"stepwatch\": {\"on_restart\": \"once\"}"));
  const status::ReloadStatus status = process.reloader.View().status;
  CHECK(status.not_begun.find("this window was done at step 1200 in an earlier start of this job (run 6170f1c3, "
                              "2026-11-22T17:34:39.123Z); on_restart is once, so it does not begin again") == 0);
}

TEST_CASE("an edit that comes while the histories are read begins, whatever is in them") {
  Process process(kConfig, LeaveHistory, true);
  process.Save(kOther);
  process.Refresh();
  CHECK(process.reloader.state() == RunState::kArmed);
  LetGo(&process);
  CHECK(process.reloader.state() == RunState::kArmed);
  CHECK(process.Count(EventKind::kNotBegun) == 0);
  process.Save(kConfig);  // as it was done, and put back by somebody
  process.Refresh();
  CHECK(process.Count(EventKind::kArmed) == 2);
  CHECK(process.Count(EventKind::kNotBegun) == 0);
}

TEST_CASE("a file that is gone while the histories are read, and comes back, is not begun either") {
  Process process(kConfig, LeaveHistory, true);
  process.Remove();
  process.Refresh();
  CHECK(process.Count(EventKind::kMissing) == 1);
  process.Save(kConfig);
  process.Refresh();
  LetGo(&process);
  CHECK(process.Count(EventKind::kArmed) == 0);
  CHECK(process.Count(EventKind::kNotBegun) == 1);
}

TEST_CASE("a request for the window while the histories are read starts it") {
  Process process(kConfig, LeaveHistory, true);
  auto order = std::make_shared<EditOrder>();
  order->change.verb = status::ConfigChange::Verb::kStart;
  status::ChangeReport report;
  process.reloader.requests().Order(order, [&](const status::ChangeReport& each) { report = each; });
  process.loop.poll();
  LetGo(&process);
  CHECK(process.reloader.state() == RunState::kArmed);
  CHECK(process.Count(EventKind::kNotBegun) == 0);
  REQUIRE(testing::Eventually([&] { return process.loop.poll(), report.is_done(); }));
  CHECK(report.outcome == status::ChangeReport::Outcome::kUnchanged);
  CHECK(report.is_begun);
  CHECK(report.verdict.kind == status::Verdict::Kind::kArmed);
}

TEST_CASE("a model that grows while the histories are read is collected whole") {
  Process process(kOther, LeaveHistory, true);
  CHECK(process.reloader.state() == RunState::kIdle);
  testing::SyntheticModel grown(4, 8, 1);
  REQUIRE(process.reloader.Attach(grown.Sites()).status.ok());
  LetGo(&process);
  REQUIRE(process.reloader.View().status.armed);
  CHECK(process.reloader.View().status.armed->sites == 8);
}

}  // namespace
}  // namespace stepwatch::reload
