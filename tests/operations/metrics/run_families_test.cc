// The metrics of runs: names, labels, bounds, both formats, and the table of them in the docs.

#include "operations/metrics/run_families.h"

#include <boost/asio/io_context.hpp>
#include <cmath>
#include <set>
#include <sstream>
#include <string>

#include "operations/intake/service.h"
#include "operations/metrics/drop_directory.h"
#include "operations/metrics/merge_expositions.h"
#include "tests/catch.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {
using testing::Has;

// A run that reports everything there is.
RunSnapshot FullRun(const std::string& id) {
  RunSnapshot run;
  run.id = id;
  run.world = 2;
  run.hosts = {"h1", "h2"};
  run.phase = RunPhase::kTrain;
  run.step = 40;
  run.step_t = 990;
  run.checkpoint_step = 30;
  run.checkpoint_t = 900;
  run.started_t = 100;
  run.heard_t = 995;
  run.step_seconds = 0.5;
  run.latest = {{"loss", std::nan("")}, {"grad_norm", 1.5}, {"lr", 1e-4}, {"loss_scale", 1024}};
  run.numbers.tokens = 4096;
  run.numbers.samples = 16;
  run.numbers.flops = 1e18;
  run.numbers.peak_flops = 2e15;
  run.numbers.mfu = 0.4;
  run.numbers.goodput = 0.9;
  run.numbers.checkpoint_bytes = 5e9;
  run.numbers.step_seconds_p99 = 0.7;
  run.numbers.steps[5] = 39;
  run.numbers.steps_seconds = 15;
  run.numbers.parts = {{WorkNumber::kDataSeconds, 0.1}, {WorkNumber::kCommunicationSeconds, 0.2}};
  for (const int64_t number : {0, 1}) {
    RankSnapshot rank;
    rank.rank = number;
    rank.step = 40;
    rank.heard_seconds_ago = 5;
    rank.step_seconds = 0.45;
    rank.gone = number == 1;
    rank.work = {{WorkNumber::kCudaAllocatedBytes, 1e9},
                 {WorkNumber::kCudaReservedBytes, 2e9},
                 {WorkNumber::kCudaAllocRetries, 3},
                 {WorkNumber::kCudaOoms, 1}};
    run.ranks.push_back(rank);
  }
  return run;
}

std::string Text(RunPage page, const RunPageLimits& limits = {},
                 http::MetricsFormat format = http::MetricsFormat::kPrometheus) {
  http::MetricsPage written(format);
  http::AddFamilies(RunFamilies(std::move(page), limits), &written);
  return std::move(written).Finish();
}

TEST_CASE("a run has its numbers under the names of the docs") {
  const std::string text =
      Text({{FullRun("r1")}, 1000, {{"r1", IncidentKind::kStuck, Severity::kCritical}, {"gone", {}, {}}}});
  for (const char* line : {"stepwatch_run_info{run=\"r1\",host=\"h1\",owner=\"\",partition=\"\"} 1\n",
                           "stepwatch_run_state{run=\"r1\",state=\"train\"} 1\n",
                           "stepwatch_run_state{run=\"r1\",state=\"ended\"} 0\n",
                           "stepwatch_run_phase{run=\"r1\",phase=\"train\"} 1\n",
                           "stepwatch_run_ranks{run=\"r1\"} 2\n",
                           "stepwatch_run_ranks_gone{run=\"r1\"} 1\n",
                           "stepwatch_run_world{run=\"r1\"} 2\n",
                           "stepwatch_run_step{run=\"r1\"} 40\n",
                           "stepwatch_run_loss{run=\"r1\"} NaN\n",
                           "stepwatch_run_learning_rate{run=\"r1\"} 0.0001\n",
                           "# TYPE stepwatch_run_tokens_total counter\nstepwatch_run_tokens_total{run=\"r1\"} 4096\n",
                           "stepwatch_run_restarts_total{run=\"r1\"} 0\n",
                           "stepwatch_run_step_duration_seconds_bucket{run=\"r1\",le=\"0.2\"} 0\n",
                           "stepwatch_run_step_duration_seconds_bucket{run=\"r1\",le=\"0.5\"} 39\n",
                           "stepwatch_run_step_duration_seconds_bucket{run=\"r1\",le=\"+Inf\"} 39\n",
                           "stepwatch_run_step_duration_seconds_sum{run=\"r1\"} 15\n",
                           "stepwatch_run_step_duration_seconds_count{run=\"r1\"} 39\n",
                           "stepwatch_run_step_part_seconds{run=\"r1\",part=\"data\"} 0.1\n",
                           "stepwatch_run_step_part_seconds{run=\"r1\",part=\"communication\"} 0.2\n",
                           "stepwatch_run_incidents_open{run=\"r1\",kind=\"stuck\",severity=\"critical\"} 1\n",
                           "stepwatch_run_rank_last_line_timestamp_seconds{run=\"r1\",rank=\"1\"} 995\n",
                           "stepwatch_run_rank_gone{run=\"r1\",rank=\"1\"} 1\n",
                           "stepwatch_run_cuda_ooms_total{run=\"r1\",rank=\"0\"} 1\n"}) {
    CAPTURE(line);
    CHECK(Has(text, line));
  }
  CHECK_FALSE(Has(text, "gone\",kind"));
}

TEST_CASE("the owner of a run is a label where it is known") {
  RunSnapshot run = FullRun("r1");
  run.owner = "ada";
  run.partition = "a100";
  CHECK(Has(Text({{run}, 1000, {}}), "owner=\"ada\",partition=\"a100\"} 1\n"));
}

TEST_CASE("a number that a run does not report has no sample, and a run has no name that breaks the page") {
  RunSnapshot run;
  run.id = "a\"b\nc";
  const std::string text = Text({{run}, 1000, {}});
  CHECK(Has(text, "stepwatch_run_ranks{run=\"a\\\"b\\nc\"} 0\n"));
  for (const char* name :
       {"run_tokens", "run_loss", "run_mfu", "step_seconds{", "run_step{", "checkpoint_step", "run_step_part"})
    CHECK_FALSE(Has(text, name));
}

TEST_CASE("runs and ranks beyond the limits are left out and counted, those that have ended first") {
  RunPage page;
  for (const char* id : {"a", "b", "c"}) page.runs.push_back(FullRun(id));
  page.runs[0].ended = true;
  page.runs[2].heard_t = 1;
  RunPageLimits limits;
  limits.runs = 2;
  limits.ranks = 3;
  std::string text = Text(page, limits);
  CHECK_FALSE(Has(text, "run=\"a\""));
  CHECK(Has(text, "rank_step{run=\"b\",rank=\"1\"}"));
  CHECK(Has(text, "rank_step{run=\"c\",rank=\"0\"}"));
  CHECK_FALSE(Has(text, "rank_step{run=\"c\",rank=\"1\"}"));
  CHECK(Has(text, "stepwatchd_metrics_left_out{what=\"runs\"} 1\nstepwatchd_metrics_left_out{what=\"ranks\"} 1\n"));
  CHECK(Has(text, "stepwatch_run_ranks{run=\"c\"} 2\n"));
  limits.runs = 1;
  CHECK_FALSE(Has(Text(page, limits), "run=\"c\""));
  limits.ranks_of_run = 1;
  CHECK_FALSE(Has(Text(page, limits), "rank=\"1\""));
}

TEST_CASE("in OpenMetrics the families of runs have the names without an end") {
  const std::string text = Text({{FullRun("r1")}, 1000, {}}, {}, http::MetricsFormat::kOpenMetrics);
  CHECK(Has(text, "# TYPE stepwatch_run info\nstepwatch_run_info{"));
  CHECK(Has(text, "# TYPE stepwatch_run_tokens counter\nstepwatch_run_tokens_total{"));
  CHECK(Has(text, "# TYPE stepwatch_run_step_duration_seconds histogram\n# UNIT stepwatch_run_step_duration_seconds"));
  CHECK(text.ends_with("# EOF\n"));
}

// The names in the first column of the tables.
std::multiset<std::string> NamesOnPage(const std::string& text) {
  std::multiset<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `stepwatch")) continue;
    const std::string cell = line.substr(0, line.find('|', 1));
    for (size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', cell.find('`', at + 1) + 1)) {
      const std::string name = cell.substr(at + 1, cell.find('`', at + 1) - at - 1);
      names.insert(name.substr(0, name.find('{')));
    }
  }
  return names;
}

TEST_CASE("the docs list each metric once, and no other one of a run") {
  const auto names = NamesOnPage(testing::Contents(STEPWATCH_SOURCE_DIR "/docs/operate/metrics.md"));
  DaemonCounts counts;
  counts.runs["train"] = 1;
  boost::asio::io_context loop;
  http::MetricsPage files(http::MetricsFormat::kPrometheus);
  std::vector<http::MetricFamily> of_files = DropDirectory(loop, "/nowhere", {}).Families(0);
  of_files.front().Add(1);
  http::AddFamilies(DaemonFamilies(counts), &files);
  http::AddFamilies(of_files, &files);
  std::istringstream lines(MergeExpositions({}, 0, http::MetricsFormat::kPrometheus) + std::move(files).Begin() +
                           Text({{FullRun("r1")}, 1000, {{"r1", {}, {}}}}));
  std::set<std::string> made;
  for (std::string mark, kind, name, line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> mark >> kind >> name;
    if (kind == "TYPE") made.insert(name);
  }
  for (const std::string& name : made) {
    CAPTURE(name);
    CHECK(names.count(name) == 1);
  }
  for (const std::string& name : names)
    if (name.starts_with("stepwatch_run_")) {
      CAPTURE(name);
      CHECK(made.contains(name));
    }
}

}  // namespace
}  // namespace stepwatch::operations
