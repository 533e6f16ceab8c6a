#include "operations/exposition/merge_expositions.h"

#include "tests/catch.h"

namespace stepwatch::operations {
namespace {

ExpositionPage Page(const std::string& rank, const std::string& text) {
  return {{{"run", "r1"}, {"rank", rank}}, text};
}

std::string Merged(const std::vector<ExpositionPage>& pages, size_t bytes_max = kExpositionBytesMax) {
  return MergeExpositions(pages, 0, bytes_max);
}

// Without what the page says of itself.
std::string Samples(const std::vector<ExpositionPage>& pages) {
  const std::string text = Merged(pages);
  return text.substr(0, text.find("# HELP stepwatchd_jobs_scraped"));
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the samples of a family stand together, each with the labels of its job") {
  const std::string page =
      "# HELP step The step.\n# TYPE step gauge\nstep 7\n# TYPE rows_total counter\nrows_total{reason=\"a\"} 2\n";
  CHECK(Samples({Page("0", page), Page("1", page)}) ==
        "# HELP step The step.\n# TYPE step gauge\nstep{run=\"r1\",rank=\"0\"} 7\nstep{run=\"r1\",rank=\"1\"} 7\n"
        "# TYPE rows_total counter\nrows_total{run=\"r1\",rank=\"0\",reason=\"a\"} 2\n"
        "rows_total{run=\"r1\",rank=\"1\",reason=\"a\"} 2\n");
}

TEST_CASE("a family whose samples one page tears apart is one family") {
  CHECK(Samples({Page("0", "# TYPE a gauge\na{x=\"1\"} 1\n# TYPE b gauge\nb 2\na{x=\"2\"} 3\n")}) ==
        "# TYPE a gauge\na{run=\"r1\",rank=\"0\",x=\"1\"} 1\na{run=\"r1\",rank=\"0\",x=\"2\"} 3\n"
        "# TYPE b gauge\nb{run=\"r1\",rank=\"0\"} 2\n");
}

TEST_CASE("the parts of a summary and of a histogram belong to it") {
  CHECK(Samples({Page("0", "# TYPE s summary\ns_sum 1.5\ns_count 2\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\n"),
                 Page("1", "# TYPE s summary\ns_sum 2.5\ns_count 3\n")}) ==
        "# TYPE s summary\ns_sum{run=\"r1\",rank=\"0\"} 1.5\ns_count{run=\"r1\",rank=\"0\"} 2\n"
        "s_sum{run=\"r1\",rank=\"1\"} 2.5\ns_count{run=\"r1\",rank=\"1\"} 3\n"
        "# TYPE h histogram\nh_bucket{run=\"r1\",rank=\"0\",le=\"+Inf\"} 1\n");
}

TEST_CASE("a label that a sample has already stands once, and keeps another value under another name") {
  CHECK(Samples({Page("0", "# TYPE i gauge\ni{run=\"r1\",rank=\"5\",v=\"x\"} 1\n")}) ==
        "# TYPE i gauge\ni{run=\"r1\",rank=\"0\",exported_rank=\"5\",v=\"x\"} 1\n");
}

TEST_CASE("what is no sample is left out and counted, and spoils nothing behind it") {
  const std::string text =
      Merged({Page("0",
                   "# TYPE a gauge\nnonsense\na{x=\"1} 1\na{x=1} 1\na one\n{} 1\na{x=\"\\\"}\"} 1e-3 1700000000000\r\n"
                   "a{x=\"nan\"} NaN\na{x=\"inf\"} +Inf\n\xff\xfe 1\na")});
  CHECK(Contains(text, "a{run=\"r1\",rank=\"0\",x=\"\\\"}\"} 1e-3 1700000000000\n"));
  CHECK(Contains(text, "x=\"nan\"} NaN\n"));
  CHECK(Contains(text, "x=\"inf\"} +Inf\n"));
  CHECK(Contains(text, "stepwatchd_jobs_samples_left_out 7\n"));
  CHECK_FALSE(Contains(text, "nonsense"));
}

TEST_CASE("of one name with two types the first stands") {
  const std::string text = Merged({Page("0", "# TYPE a gauge\na 1\n"), Page("1", "# TYPE a counter\na 2\n")});
  CHECK(Contains(text, "# TYPE a gauge\na{run=\"r1\",rank=\"0\"} 1\n"));
  CHECK_FALSE(Contains(text, "rank=\"1\""));
  CHECK(Contains(text, "stepwatchd_jobs_samples_left_out 1\n"));
}

TEST_CASE("a page that is too long ends at a whole sample") {
  std::string page = "# TYPE a gauge\n";
  for (int i = 0; i < 1000; ++i) page += "a{i=\"" + std::to_string(i) + "\"} 1\n";
  const std::string text = Merged({Page("0", page)}, 1000);
  CHECK(text.size() < 2000);
  CHECK(Contains(text, "a{run=\"r1\",rank=\"0\",i=\"0\"} 1\n"));
  CHECK_FALSE(Contains(text, "left_out 0\n"));
}

TEST_CASE("a run's name cannot break the page") {
  CHECK(Contains(MergeExpositions({{{{"run", "a\"b\\c\nd\xff"}}, "# TYPE a gauge\na 1\n"}}, 0),
                 "a{run=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"} 1\n"));
}

TEST_CASE("without jobs the page says so") {
  const std::string text = MergeExpositions({}, 3);
  CHECK(Contains(text, "stepwatchd_jobs_scraped 0\n"));
  CHECK(Contains(text, "stepwatchd_jobs_not_scraped 3\n"));
  CHECK(Contains(Merged({Page("0", "# TYPE stepwatchd_jobs_scraped gauge\nstepwatchd_jobs_scraped 9\n")}),
                 "stepwatchd_jobs_scraped 1\n"));
}

}  // namespace
}  // namespace stepwatch::operations
