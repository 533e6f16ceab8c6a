#include "controller/control_socket/metrics.h"

#include <cmath>
#include <set>
#include <sstream>

#include "src/http/metrics_page.h"
#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::control_socket {
namespace {

using status::JobStatus;
using testing::Has;

TEST_CASE("every metric has its help and its type before its samples, and is there once") {
  JobStatus status;
  status.step_seconds = 0.25;
  status.cost.total.collected = 1;
  status.cost.total.ns[static_cast<size_t>(SiteKind::kActv)] = 400'000'000;
  status.cost.total.ns[step::kBoundaryCost] = 100'000'000;
  status.reload.budget.emplace();
  status.reload.budget->spent_percent = 0.5;
  status.ranks.emplace();
  SiteValues sites;
  sites.series_max = 10;
  std::istringstream lines(MetricsText(status, http::MetricsFormat::kPrometheus, sites));
  std::set<std::string> families;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      CHECK(families.insert(family).second);
    } else if (line.starts_with("# TYPE ")) {
      CHECK(line.substr(7, family.size() + 1) == family + " ");
    } else {
      const std::string name = line.substr(0, line.find_first_of(" {"));
      CHECK((name == family || name == family + "_sum" || name == family + "_count"));
    }
  }
  CHECK(families.count("stepwatch_step_seconds") == 1);
  CHECK(families.count("stepwatch_rows_dropped_total") == 1);
  CHECK(families.count("stepwatch_cost_seconds_total") == 1);
  CHECK(families.count("stepwatch_budget_spent_percent") == 1);
  CHECK(Has(MetricsText(status), "stepwatch_cost_seconds_total{kind=\"actv\"} 0.4\n"));
}

TEST_CASE("what cannot stand in a label is escaped") {
  JobStatus status;
  status.config_path = "a\\b\"c\nd";
  CHECK(Has(MetricsText(status), "config_path=\"a\\\\b\\\"c\\nd\""));
}

TEST_CASE("the state is 1 and all others are 0") {
  JobStatus status;
  status.monitor.state = RunState::kCollecting;
  const std::string text = MetricsText(status);
  CHECK(Has(text, "stepwatch_state{state=\"COLLECTING\"} 1\n"));
  CHECK(Has(text, "stepwatch_state{state=\"IDLE\"} 0\n"));
}

TEST_CASE("looks are counted by cause, refused edits by reason, and swaps are timed") {
  JobStatus status;
  status.looks = {.event = 1, .slow = 2, .again = 3, .refresh = 4};
  status.refusals = {.syntax = 5, .value = 6, .limit = 8, .rank = 9};
  status.swaps = {.swaps = 3, .total_ns = 6000, .longest_ns = 5000};
  const std::string text = MetricsText(status);
  for (const char* line :
       {"looks_total{cause=\"event\"} 1", "looks_total{cause=\"slow\"} 2", "looks_total{cause=\"again\"} 3",
        "looks_total{cause=\"refresh\"} 4", "refusals_total{reason=\"syntax\"} 5", "refusals_total{reason=\"value\"} 6",
        "refusals_total{reason=\"limit\"} 8", "refusals_total{reason=\"rank\"} 9", "swap_seconds_sum 6e-06",
        "swap_seconds_count 3", "longest_swap_seconds 5e-06"}) {
    INFO(line);
    CHECK(Has(text, std::string("\nstepwatch_") + line + "\n"));
  }
}

TEST_CASE("ranks are counted by state where the job is answered for, and nowhere else") {
  JobStatus status;
  CHECK_FALSE(Has(MetricsText(status), "stepwatch_ranks"));
  status.ranks.emplace();
  status.ranks->ranks[static_cast<size_t>(RunState::kCollecting)] = 6;
  status.ranks->unknown = 2;
  status.ranks->asked_unix = 1.5e9;
  const std::string text = MetricsText(status);
  CHECK(Has(text, "stepwatch_ranks{state=\"COLLECTING\"} 6\n"));
  CHECK(Has(text, "stepwatch_ranks{state=\"IDLE\"} 0\n"));
  CHECK(Has(text, "stepwatch_ranks{state=\"UNKNOWN\"} 2\n"));
  CHECK(Has(text, "stepwatch_ranks_asked_timestamp_seconds 1500000000\n"));
}

TEST_CASE("in OpenMetrics a counter is called without its end, seconds have their unit, and the page has an end") {
  const std::string text = MetricsText(JobStatus(), http::MetricsFormat::kOpenMetrics);
  for (const char* line : {"# TYPE stepwatch_looks counter\n", "\nstepwatch_events_total 0\n",
                           "# TYPE stepwatch info\n", "\nstepwatch_info{", "# UNIT stepwatch_drain_seconds seconds\n",
                           "# TYPE stepwatch_drain_seconds summary\n", "\nstepwatch_drain_seconds_count 0\n"})
    CHECK(Has(text, line));
  CHECK(text.ends_with("\n# EOF\n"));
  CHECK_FALSE(Has(MetricsText(JobStatus()), "# EOF"));
  CHECK(Has(MetricsText(JobStatus()), "# TYPE stepwatch_looks_total counter\n"));
}

LatestValue ValueOf(const std::string& name, double norm) {
  LatestValue value;
  value.name = name;
  value.record.step = 7;
  value.record.value_count = 2;
  value.record.values[0].stat = Stat::kNorm;
  value.record.values[0].f64 = norm;
  value.record.values[1].stat = Stat::kNans;
  value.record.values[1].is_integer = true;
  value.record.values[1].i64 = 3;
  return value;
}

std::string SitesText(const SiteValues& sites) {
  return MetricsText(JobStatus(), http::MetricsFormat::kPrometheus, sites);
}

TEST_CASE("sites are shown with kind, name and statistic, as many series as are wanted") {
  SiteValues sites;
  sites.series_max = 3;
  sites.kinds = {{SiteKind::kGradReduced, {ValueOf("fc.\"weight\"", 0.5), ValueOf("fc.bias", 2)}}};
  const std::string text = SitesText(sites);
  CHECK(Has(text, "stepwatch_site_value{kind=\"grad_reduced\",site=\"fc.\\\"weight\\\"\",op=\"norm\"} 0.5\n"));
  CHECK(Has(text, "site=\"fc.bias\",op=\"norm\"} 2\n"));
  CHECK_FALSE(Has(text, "site=\"fc.bias\",op=\"nans\"}"));
  CHECK(Has(text, "stepwatch_site_series_left_out 1\n"));
  CHECK(Has(text, "stepwatch_site_step{kind=\"grad_reduced\"} 7\n"));
  sites.series_max = 0;
  CHECK_FALSE(Has(SitesText(sites), "stepwatch_site"));
}

TEST_CASE("NaN and infinities have their words, a missing tensor has no value, and no series is there twice") {
  SiteValues sites;
  sites.series_max = 100;
  LatestValue missing = ValueOf("gone", 1);
  missing.record.flags = Record::kMissing;
  sites.kinds = {
      {SiteKind::kActv,
       {ValueOf("a", std::nan("")), ValueOf("b", HUGE_VAL), ValueOf("c", -HUGE_VAL), ValueOf("c", 1), missing}}};
  const std::string text = SitesText(sites);
  CHECK(Has(text, "site=\"a\",op=\"norm\"} NaN\n"));
  CHECK(Has(text, "site=\"b\",op=\"norm\"} +Inf\n"));
  CHECK(Has(text, "site=\"c\",op=\"norm\"} -Inf\n"));
  CHECK_FALSE(Has(text, "site=\"c\",op=\"norm\"} 1\n"));
  CHECK_FALSE(Has(text, "gone"));
  CHECK(Has(text, "stepwatch_site_series_left_out 2\n"));
}

}  // namespace
}  // namespace stepwatch::control_socket
