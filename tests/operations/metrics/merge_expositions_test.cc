#include "operations/metrics/merge_expositions.h"

#include <random>

#include "operations/metrics/parse_exposition.h"
#include "tests/catch.h"
#include "tests/has.h"
#include "tests/random_seed.h"
#include "tests/rounds.h"

namespace stepwatch::operations {
namespace {
using testing::Has;

ExpositionPage Page(const std::string& rank, const std::string& text) {
  return {{{"run", "r1"}, {"rank", rank}}, text};
}

std::string Merged(const std::vector<ExpositionPage>& pages, size_t bytes_max = kExpositionBytesMax) {
  return MergeExpositions(pages, 0, http::MetricsFormat::kPrometheus, bytes_max);
}

// The page without its own counts.
std::string Samples(const std::vector<ExpositionPage>& pages) {
  const std::string text = Merged(pages);
  return text.substr(0, text.find("# HELP stepwatchd_jobs_scraped"));
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
  CHECK(Has(text, "a{run=\"r1\",rank=\"0\",x=\"\\\"}\"} 1e-3 1700000000000\n"));
  CHECK(Has(text, "x=\"nan\"} NaN\n"));
  CHECK(Has(text, "x=\"inf\"} +Inf\n"));
  CHECK(Has(text, "stepwatchd_jobs_samples_left_out 7\n"));
  CHECK_FALSE(Has(text, "nonsense"));
}

TEST_CASE("of one name with two types the first stands") {
  const std::string text = Merged({Page("0", "# TYPE a gauge\na 1\n"), Page("1", "# TYPE a counter\na 2\n")});
  CHECK(Has(text, "# TYPE a gauge\na{run=\"r1\",rank=\"0\"} 1\n"));
  CHECK_FALSE(Has(text, "rank=\"1\""));
  CHECK(Has(text, "stepwatchd_jobs_samples_left_out 1\n"));
}

TEST_CASE("a page that is too long ends at a whole sample") {
  std::string page = "# TYPE a gauge\n";
  for (int i = 0; i < 1000; ++i) page += "a{i=\"" + std::to_string(i) + "\"} 1\n";
  const std::string text = Merged({Page("0", page)}, 1000);
  CHECK(text.size() < 2000);
  CHECK(Has(text, "a{run=\"r1\",rank=\"0\",i=\"0\"} 1\n"));
  CHECK_FALSE(Has(text, "left_out 0\n"));
}

TEST_CASE("a run's name cannot break the page") {
  CHECK(Has(
      MergeExpositions({{{{"run", "a\"b\\c\nd\xff"}}, "# TYPE a gauge\na 1\n"}}, 0, http::MetricsFormat::kPrometheus),
      "a{run=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"} 1\n"));
}

// Pages that Prometheus refuses, each for one reason.
const std::vector<std::string>& BadPages() {
  static const std::vector<std::string> pages = {
      "# TYPE bad gauge\nbad{x=\"\\q\"} 1\n",
      "# TYPE bad gauge\nbad{x=\"1\",x=\"2\"} 1\n",
      "# TYPE bad gauge\nbad nan(x)\n",
      "# TYPE bad gauge\nbad 0x1p3\n",
      "# TYPE bad gauge\nbad 1_000\n",
      "# TYPE bad gauge\nbad +-1\n",
      "# TYPE bad gauge\nbad 1e999\n",
      "# TYPE bad gauge\nbad\n",
      "# TYPE bad gauge\nbad \n",
      "# TYPE bad gauge\nbad 1 1.5\n",
      "# TYPE bad gauge\nbad 1 -5\n",
      "# TYPE bad gauge\nbad 1 99999999999999999999\n",
      "# TYPE bad gauge\nbad 1 5 6\n",
      "# TYPE bad gauge\n# TYPE bad gauge\nbad 1\n",
      "# TYPE bad gauge\n# TYPE bad counter\nbad 1\n",
      "bad 1\n# TYPE bad gauge\n",
      "# TYPE bad info\nbad 1\n",
      "# TYPE bad\nbad 1\n",
      "# TYPE bad gauge\nbad{__name__=\"other\"} 1\n",
      "# TYPE bad gauge\nbad{__x=\"1\"} 1\n",
      "# TYPE bad gauge\nbad{a:b=\"1\"} 1\n",
      "# TYPE bad gauge\nbad{1a=\"1\"} 1\n",
      "# TYPE bad gauge\nbad{a=\"1\" b=\"2\"} 1\n",
      "# TYPE bad gauge\nbad{,} 1\n",
      "# TYPE bad gauge\nbad{a=\"1\",,} 1\n",
      "# TYPE bad gauge\nbad{a=\"1} 1\n",
      "# TYPE bad gauge\nbad{a=\"1\"\n} 1\n",
      "# TYPE bad gauge\nbad{a=\"\xff\"} 1\n",
      std::string("# TYPE bad gauge\nbad{a=\"\0\"} 1\n", 30),
      "# TYPE bad histogram\nbad_bucket 1\nbad_sum 1\nbad_count 1\n",
      "# TYPE bad histogram\nbad_bucket{le=\"x\"} 1\nbad_sum 1\nbad_count 1\n",
      "# TYPE bad histogram\nbad 1\n",
      "# TYPE bad summary\nbad{quantile=\"half\"} 1\n",
      "# TYPE bad summary\nbad 1\n",
      "# TYPE stepwatchd_runs gauge\nstepwatchd_runs 9\n",
      "# TYPE stepwatch_run_step gauge\nstepwatch_run_step 9\n",
      "# TYPE stepwatchd_jobs counter\nstepwatchd_jobs_scraped 9\n",
  };
  return pages;
}

TEST_CASE("what Prometheus would refuse the page for is left out and counted, and the other jobs stand") {
  const std::string good = "# TYPE good gauge\ngood 1\n";
  for (const std::string& bad : BadPages()) {
    CAPTURE(bad);
    const std::string text = Merged({Page("0", bad + good), Page("1", good)});
    CHECK(Has(text, "good{run=\"r1\",rank=\"0\"} 1\ngood{run=\"r1\",rank=\"1\"} 1\n"));
    CHECK_FALSE(Has(text, "bad"));
    CHECK_FALSE(Has(text, " 9\n"));
    CHECK_FALSE(Has(text, "samples_left_out 0\n"));
  }
}

TEST_CASE("a sample that stands twice, in a page or in two of one job, is kept once") {
  const std::string text = Merged({Page("0", "# TYPE a gauge\na{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 2\n"),
                                   Page("0", "# TYPE a gauge\na{x=\"1\",y=\"2\"} 3\n")});
  CHECK(Has(text, "# TYPE a gauge\na{run=\"r1\",rank=\"0\",x=\"1\",y=\"2\"} 1\n# HELP"));
  CHECK(Has(text, "samples_left_out 2\n"));
}

TEST_CASE("a label keeps another value under a name that no label has") {
  CHECK(Samples({Page("0", "# TYPE a gauge\na{rank=\"5\",exported_rank=\"6\"} 1\n")}) ==
        "# TYPE a gauge\na{run=\"r1\",rank=\"0\",exported_exported_rank=\"5\",exported_rank=\"6\"} 1\n");
}

TEST_CASE("the parts of a histogram are no family of another page, whichever comes first") {
  const std::string histogram = "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n";
  const std::string counter = "# TYPE h_count counter\nh_count 5\n";
  CHECK_FALSE(Has(Merged({Page("0", histogram), Page("1", counter)}), "TYPE h_count"));
  CHECK_FALSE(Has(Merged({Page("0", counter), Page("1", histogram)}), "histogram"));
}

// Pages of parts that are good and bad, put together at random and damaged.
std::string RandomPage(std::mt19937& dice) {
  const auto roll = [&](size_t sides) { return std::uniform_int_distribution<size_t>(0, sides - 1)(dice); };
  std::string page;
  for (size_t lines = roll(6); lines > 0; --lines) {
    if (roll(3) == 0) page += BadPages()[roll(BadPages().size())];
    const std::vector<std::string> names = {"a", "a_count", "a_sum", "a_bucket", "b:c", "_d", "stepwatchd_x"};
    const std::vector<std::string> types = {"gauge", "counter", "histogram", "summary", "untyped"};
    const std::string name = names[roll(names.size())];
    if (roll(2) == 0) page += "# TYPE " + name + " " + types[roll(types.size())] + "\n";
    if (roll(3) == 0) page += "# HELP " + name + " Some \\n help \\\\.\n";
    const std::vector<std::string> labels = {
        "", "{}", "{le=\"1\"}", "{quantile=\"0.5\"}", "{run=\"x\",exported_run=\"y\",}", "{x=\"\\\"\"}"};
    page += name + labels[roll(labels.size())] + " " + std::to_string(roll(9)) + (roll(4) == 0 ? " 17" : "") + "\n";
  }
  for (size_t edits = roll(3); edits > 0 && !page.empty(); --edits) {
    const std::string bytes("\0\xff\"\\{}=, \n#1", 12);
    page[roll(page.size())] = bytes[roll(bytes.size())];
  }
  return page;
}

TEST_CASE("a merged page of any pages has nothing to leave out, and its families stand once") {
  std::mt19937 dice(static_cast<unsigned>(test::RandomSeed()));
  for (int round = 0; round < testing::Rounds(3000); ++round) {
    std::vector<ExpositionPage> pages;
    for (const char* rank : {"0", "1", "1"}) pages.push_back(Page(rank, RandomPage(dice)));
    const std::string text = Samples(pages);
    CAPTURE(text);
    const ParsedExposition parsed = ParseExposition(text);
    REQUIRE(parsed.samples_bad == 0);
    REQUIRE(parsed.families_bad == 0);
    // The name of a part of a histogram is not a family of its own.
    for (const ExpositionFamily& family : parsed.families)
      for (const std::string_view ending : SampleEndings(family.type))
        REQUIRE_FALSE(Has(text, "# TYPE " + family.name + std::string(ending) + " "));
  }
}

TEST_CASE("without jobs the page has counts of zero") {
  const std::string text = MergeExpositions({}, 3, http::MetricsFormat::kPrometheus);
  CHECK(Has(text, "stepwatchd_jobs_scraped 0\n"));
  CHECK(Has(text, "stepwatchd_jobs_not_scraped 3\n"));
  CHECK(Has(Merged({Page("0", "# TYPE stepwatchd_jobs_scraped gauge\nstepwatchd_jobs_scraped 9\n")}),
            "stepwatchd_jobs_scraped 1\n"));
}

}  // namespace
}  // namespace stepwatch::operations
