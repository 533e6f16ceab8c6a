#include "operations/host/host_watch.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <optional>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/has.h"
#include "tests/operations/fake_proc.h"

namespace stepwatch::operations {
namespace {

using testing::Has;

std::string PageOf(const HostWatch& watch, const std::map<std::string, double>& checkpoint_bytes = {}) {
  http::MetricsPage page(http::MetricsFormat::kPrometheus);
  http::AddFamilies(watch.Families(checkpoint_bytes), &page);
  return std::move(page).Finish();
}

TEST_CASE("pressure is read as a share, and a text without it as no value") {
  const std::string text = "some avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 total=1\n";
  CHECK(PressureIn(text, "some") == 0.125);
  CHECK(PressureIn(text, "full") == 0.0);
  for (const char* wrong :
       {"", "some", "some avg10=", "some avg10=x", "some avg10=-1", "some avg10=101", "somewhat avg10=1"})
    CHECK_FALSE(PressureIn(wrong, "some"));
}

TEST_CASE("the page has the host's pressure and memory kills, and no value that the kernel lacks") {
  testing::FakeProc files;
  files.Set("/proc/pressure/io", "some avg10=50.00 avg60=1.00 avg300=0.00 total=5\n");
  files.Set("/proc/vmstat", "oom_kill 3\n");
  boost::asio::io_context loop;
  HostWatch watch(loop, {.files = &files});
  const std::string page = PageOf(watch);
  CHECK(Has(page, "stepwatchd_host_pressure_ratio{resource=\"io\",kind=\"some\"} 0.5\n"));
  CHECK_FALSE(Has(page, "kind=\"full\""));
  CHECK_FALSE(Has(page, "resource=\"cpu\""));
  CHECK(Has(page, "stepwatchd_host_oom_kills_total 3\n"));
  CHECK_FALSE(Has(page, "disk"));
}

TEST_CASE("a disk has room for so many checkpoints, and a mount that hangs hides no other") {
  std::atomic<bool> hangs{false};
  const auto look = [&](const std::string& path) -> std::optional<DiskSpace> {
    while (hangs && path == "/slow") std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (path == "/none") return std::nullopt;
    return DiskSpace{path == "/slow" ? 1.0 : 2500, 10000};
  };
  boost::asio::io_context loop;
  HostWatch watch(loop, {{"/slow", "/fast", "/none"}, std::chrono::milliseconds(5), look});
  const auto until = [&](const std::function<bool()>& holds) {
    return testing::Eventually([&] {
      loop.poll();
      return holds();
    });
  };
  watch.Start();
  REQUIRE(until([&] { return Has(PageOf(watch), "free_bytes{path=\"/slow\"} 1\n"); }));
  REQUIRE(until([&] { return Has(PageOf(watch), "free_bytes{path=\"/fast\"} 2500\n"); }));
  const std::string page = PageOf(watch, {{"r", 1000}, {"s", 0}});
  CHECK(Has(page, "stepwatchd_host_disk_checkpoints_left{run=\"r\",path=\"/fast\"} 2\n"));
  CHECK(Has(page, "stepwatchd_host_disk_size_bytes{path=\"/fast\"} 10000\n"));
  CHECK_FALSE(Has(page, "run=\"s\""));
  CHECK_FALSE(Has(page, "/none"));
  hangs = true;
  CHECK(until([&] { return !Has(PageOf(watch), "/slow"); }));
  CHECK(Has(PageOf(watch), "/fast"));
  hangs = false;
  CHECK(until([&] { return Has(PageOf(watch), "/slow"); }));
}

TEST_CASE("the space of a real directory is known, that of one that does not exist is not") {
  const std::optional<DiskSpace> space = DiskSpaceOf("/");
  REQUIRE(space);
  CHECK(space->size_bytes >= space->free_bytes);
  CHECK_FALSE(DiskSpaceOf("/nowhere/at/all"));
}

}  // namespace
}  // namespace stepwatch::operations
