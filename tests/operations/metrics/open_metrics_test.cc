// Merged pages in OpenMetrics: what may be a counter, a histogram or a summary, and what is unknown.

#include "operations/metrics/open_metrics.h"

#include <string>

#include "operations/metrics/merge_expositions.h"
#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::operations {
namespace {
using testing::Has;

std::string Page(const std::string& text) {
  return MergeExpositions({{{}, text}}, 0, http::MetricsFormat::kOpenMetrics);
}

// Without the counts of the merge.
std::string Open(const std::string& text) {
  const std::string page = Page(text);
  return page.substr(0, page.find("# HELP stepwatchd_jobs_scraped"));
}

TEST_CASE("a counter is called without its end, and one that cannot be a counter is unknown") {
  CHECK(Open("# TYPE a_total counter\na_total{x=\"1\"} 2\n") == "# TYPE a counter\na_total{x=\"1\"} 2\n");
  CHECK(Open("# TYPE a counter\na 2\n") == "# TYPE a unknown\na 2\n");
  CHECK(Open("# TYPE a_total counter\na_total -2\n") == "# TYPE a_total unknown\na_total -2\n");
  CHECK(Open("# TYPE a_total counter\na_total NaN\n") == "# TYPE a_total unknown\na_total NaN\n");
  CHECK(Open("# TYPE _total counter\n_total 1\n") == "# TYPE _total unknown\n_total 1\n");
  CHECK(Open("a 2\n") == "# TYPE a unknown\na 2\n");
  CHECK(Open("# TYPE a gauge\na -2\n") == "# TYPE a gauge\na -2\n");
}

TEST_CASE("times are in seconds, and numbers have one spelling each") {
  CHECK(Open("# TYPE a gauge\na{x=\"1\"} 1 1700000000123\na{x=\"2\"} 1 5\na{x=\"3\"} 1 1000\n") ==
        "# TYPE a gauge\na{x=\"1\"} 1 1700000000.123\na{x=\"2\"} 1 0.005\na{x=\"3\"} 1 1.000\n");
  CHECK(Open("# TYPE a gauge\na{x=\"1\"} inf\na{x=\"2\"} -Infinity\na{x=\"3\"} nan\n") ==
        "# TYPE a gauge\na{x=\"1\"} +Inf\na{x=\"2\"} -Inf\na{x=\"3\"} NaN\n");
}

TEST_CASE("quotes in a help are escaped") {
  CHECK(Has(Open("# HELP a Some \"x\" \\\\ \\n y\n# TYPE a gauge\na 1\n"), "# HELP a Some \\\"x\\\" \\\\ \\n y\n"));
}

TEST_CASE("a histogram has its parts together and in order") {
  CHECK(
      Open("# TYPE h histogram\nh_count{r=\"1\"} 3\nh_count{r=\"2\"} 0\nh_bucket{r=\"1\",le=\"+Inf\"} 3\n"
           "h_bucket{r=\"2\",le=\"inf\"} 0\nh_sum{r=\"1\"} 1.5\nh_sum{r=\"2\"} 0\nh_bucket{r=\"1\",le=\"0.5\"} 2\n") ==
      "# TYPE h histogram\nh_bucket{r=\"1\",le=\"0.5\"} 2\nh_bucket{r=\"1\",le=\"+Inf\"} 3\nh_sum{r=\"1\"} 1.5\n"
      "h_count{r=\"1\"} 3\nh_bucket{r=\"2\",le=\"+Inf\"} 0\nh_sum{r=\"2\"} 0\nh_count{r=\"2\"} 0\n");
}

TEST_CASE("a histogram that contradicts itself is unknown, each part of it") {
  const std::string head = "# TYPE h histogram\n";
  CHECK(Open(head + "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n") ==
        "# TYPE h_bucket unknown\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\n# TYPE h_sum unknown\nh_sum 1\n"
        "# TYPE h_count unknown\nh_count 1\n");
  for (const char* bad :
       {"h_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n", "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n",
        "h_bucket{le=\"+Inf\"} 1\nh_count 1\n", "h_bucket{le=\"+Inf\"} 1\nh_sum 1\n", "h_sum 1\nh_count 1\n",
        "h_bucket{le=\"+Inf\"} 1\nh_sum -1\nh_count 1\n", "h_bucket{le=\"+Inf\"} 1.5\nh_sum 1\nh_count 1.5\n",
        "h_bucket{le=\"1\"} 1\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
        "h_bucket{le=\"+Inf\"} 1 5\nh_sum 1\nh_count 1\n", "h_bucket{le=\"+Inf\"} 1\nh_sum{le=\"1\"} 1\nh_count 1\n"}) {
    CAPTURE(bad);
    CHECK_FALSE(Has(Open(head + bad), "histogram"));
    CHECK(Has(Open(head + bad), "unknown"));
  }
}

TEST_CASE("a summary may have only some of its parts, and one that contradicts itself is unknown") {
  const std::string head = "# TYPE s summary\n";
  CHECK(Open(head + "s_sum 1.5\ns_count 2\n") == head + "s_sum 1.5\ns_count 2\n");
  CHECK(Open(head + "s{quantile=\"0.5\"} 1\n") == head + "s{quantile=\"0.5\"} 1\n");
  CHECK(Open(head + "s{quantile=\"0.9\"} NaN\ns{quantile=\"0.5\"} 1\n") ==
        head + "s{quantile=\"0.5\"} 1\ns{quantile=\"0.9\"} NaN\n");
  for (const char* bad : {"s{quantile=\"2\"} 1\n", "s{quantile=\"0.5\"} -1\n", "s_sum NaN\n", "s_count 1.5\n"})
    CHECK(Has(Open(head + bad), "unknown"));
}

TEST_CASE("of two families that share a name in OpenMetrics the first is kept, and the other counted") {
  const std::string page =
      Page("# TYPE a_total counter\na_total 1\n# TYPE a gauge\na 2\n# TYPE a_created gauge\na_created 3\n");
  CHECK(Has(page, "# TYPE a counter\na_total 1\n"));
  CHECK_FALSE(Has(page, "gauge\na"));
  CHECK(Has(page, "stepwatchd_jobs_families_refused 2\n"));
  CHECK(Has(page, "stepwatchd_jobs_samples_left_out 2\n"));
}

}  // namespace
}  // namespace stepwatch::operations
