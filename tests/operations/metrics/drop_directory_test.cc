// Files of metrics in a directory: what is taken, what is left out, and what a bad file costs.

#include "operations/metrics/drop_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {
using testing::Has;
using testing::TemporaryDirectory;

constexpr double kNow = 1e9;
constexpr const char* kGood = "# TYPE eval_score gauge\neval_score 0.5\n";

void Put(const TemporaryDirectory& directory, const std::string& name, const std::string& text, double age = 10) {
  const std::string path = directory / name;
  std::ofstream(path) << text;
  const auto seconds = static_cast<time_t>(kNow - age);
  const struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

DropFiles Read(const TemporaryDirectory& directory, const DropLimits& limits = {}) {
  return ReadDropDirectory(directory.path(), limits, kNow);
}

TEST_CASE("files with the right end are read in the order of their names, with their age") {
  const TemporaryDirectory directory;
  Put(directory, "b.prom", kGood, 20);
  Put(directory, "a.prom", "");
  Put(directory, "c.prom.tmp", kGood);
  Put(directory, ".d.prom", kGood);
  const DropFiles found = Read(directory);
  REQUIRE(found.files.size() == 2);
  CHECK(found.files[0].name == "a.prom");
  CHECK(found.files[1].name == "b.prom");
  CHECK(found.files[1].text == kGood);
  CHECK(found.files[1].changed_t == kNow - 20);
  CHECK(found.bad + found.beyond + found.old == 0);
}

TEST_CASE("a file that is torn, invalid or no file costs only itself") {
  const TemporaryDirectory directory;
  Put(directory, "good.prom", kGood);
  Put(directory, "torn.prom", "# TYPE a gauge\na 1");
  Put(directory, "nonsense.prom", "nonsense\n");
  Put(directory, "types.prom", "# TYPE a gauge\n# TYPE a counter\na 1\n");
  Put(directory, "reserved.prom", "stepwatchd_runs 1\n");
  Put(directory, "reserved_run.prom", "stepwatch_run_step 1\n");
  Put(directory, "times.prom", "a 1 1700000000000\n");
  Put(directory, "bytes.prom", std::string("a{x=\"\xff\"} 1\n"));
  Put(directory, "future.prom", kGood, -3600);
  std::filesystem::create_directory(directory / "directory.prom");
  REQUIRE(::mkfifo((directory / "pipe.prom").c_str(), 0600) == 0);
  std::filesystem::create_symlink("/nowhere", directory / "link.prom");
  const DropFiles found = Read(directory);
  REQUIRE(found.files.size() == 1);
  CHECK(found.files[0].name == "good.prom");
  CHECK(found.bad == 11);
}

TEST_CASE("files that are too old, too large or too many are left out") {
  const TemporaryDirectory directory;
  Put(directory, "a.prom", kGood, 3601);
  Put(directory, "b.prom", kGood, 3599);
  Put(directory, "c.prom", std::string(200, '\n'));
  Put(directory, "d.prom", kGood);
  DropLimits limits;
  limits.file_bytes = 100;
  CHECK(Read(directory, limits).old == 1);
  CHECK(Read(directory, limits).beyond == 1);
  CHECK(Read(directory, limits).files.size() == 2);
  limits.files = 1;
  CHECK(Read(directory, limits).files.size() == 1);
  CHECK(Read(directory, limits).beyond == 2);
  limits.files = 10;
  limits.bytes = 60;
  CHECK(Read(directory, limits).files.size() == 1);
}

TEST_CASE("a directory that cannot be read is one bad thing, and no page") {
  const DropFiles found = ReadDropDirectory("/nowhere", {}, kNow);
  CHECK(found.files.empty());
  CHECK(found.bad == 1);
}

TEST_CASE("the files are pages without labels, until they are too old") {
  const TemporaryDirectory directory;
  Put(directory, "a.prom", kGood);
  boost::asio::io_context loop;
  DropDirectory drop(loop, directory.path(), {});
  std::vector<ExpositionPage> pages;
  drop.Look(kNow);
  CHECK(testing::Eventually([&] {
    loop.restart();
    loop.run_for(std::chrono::milliseconds(10));
    pages.clear();
    drop.AddPages(kNow, &pages);
    return !pages.empty();
  }));
  REQUIRE(pages.size() == 1);
  const std::string text = MergeExpositions(pages, 0, http::MetricsFormat::kPrometheus);
  CHECK(Has(text, "\neval_score 0.5\n"));
  CHECK(Has(text, "stepwatchd_jobs_scraped 0\n"));

  http::MetricsPage page(http::MetricsFormat::kPrometheus);
  http::AddFamilies(drop.Families(kNow), &page);
  const std::string own = std::move(page).Finish();
  CHECK(Has(own, "stepwatchd_file_age_seconds{file=\"a.prom\"} 10\n"));
  CHECK(Has(own, "stepwatchd_files_left_out{reason=\"old\"} 0\n"));

  pages.clear();
  drop.AddPages(kNow + 4000, &pages);
  CHECK(pages.empty());
  http::MetricsPage later(http::MetricsFormat::kPrometheus);
  http::AddFamilies(drop.Families(kNow + 4000), &later);
  CHECK(Has(std::move(later).Finish(), "stepwatchd_files_left_out{reason=\"old\"} 1\n"));
}

}  // namespace
}  // namespace stepwatch::operations
