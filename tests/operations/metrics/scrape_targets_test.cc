// Targets of scrapes, as JSON and in a file.

#include "operations/metrics/scrape_targets.h"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string>

#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

ExpositionPage StatusPage(const std::string& rank, const std::string& json) {
  return {{{"run", "r1"}, {"rank", rank}, {"job", "4711-1"}}, json};
}

TEST_CASE("stepwatchd is a target if it has a TCP address that a scrape can reach") {
  CHECK(TargetsJson(OwnTargets("", {"gpu7", ""})) == "[]\n");
  CHECK(TargetsJson(OwnTargets("127.0.0.1:9465", {"gpu7", ""})) ==
        R"([{"targets":["127.0.0.1:9465"],"labels":{"__meta_stepwatch_kind":"stepwatchd","host":"gpu7"}}])"
        "\n");
  CHECK(OwnTargets("0.0.0.0:9465", {"gpu7", ""})[0].address == "gpu7:9465");
  CHECK(OwnTargets("[::]:9465", {"gpu7", "gpu7.cluster"})[0].address == "gpu7.cluster:9465");
}

TEST_CASE("jobs with TCP are targets with their run and rank, and others are none") {
  const JobPages status{
      {StatusPage("1", R"({"tcp_address": "127.0.0.1:9002"})"), StatusPage("0", R"({"tcp_address": "[::1]:9001"})"),
       StatusPage("2", R"({"tcp_address": null})"), StatusPage("3", "{}"), StatusPage("4", "nonsense"),
       StatusPage("5", "[]")},
      1};
  const std::vector<ScrapeTarget> targets = JobTargets(status, {"gpu7", ""});
  REQUIRE(targets.size() == 2);
  CHECK(targets[0].address == "127.0.0.1:9002");
  CHECK(TargetsJson({targets[1]}) ==
        R"([{"targets":["[::1]:9001"],"labels":{"__meta_stepwatch_kind":"job","host":"gpu7","run":"r1","rank":"0"}}])"
        "\n");
}

TEST_CASE("a text that is no address is no target") {
  for (const char* bad : {"", ":", ":80", "host", "host:", "host:0", "host:65536", "host:-1", "a b:80", "a\\\"b:80",
                          "http://host:80", "host:80/path", "user@host:80"}) {
    CAPTURE(bad);
    CHECK(JobTargets({{StatusPage("0", std::string(R"({"tcp_address": ")") + bad + "\"}")}, 0}, {"gpu7", ""}).empty());
  }
}

TEST_CASE("the file has the newest list, whole, and a failure is reported once") {
  const testing::TemporaryDirectory directory;
  boost::asio::io_context loop;
  const auto run_until = [&](const auto& holds) {
    return testing::Eventually([&] {
      loop.restart();
      loop.run_for(std::chrono::milliseconds(10));
      return holds();
    });
  };
  TargetsFile file(loop, directory / "targets.json", [](const Status&) { FAIL("it cannot be written"); });
  file.Write("[]\n");
  CHECK(run_until([&] { return testing::Contents(directory / "targets.json") == "[]\n"; }));
  CHECK(run_until([&] {
    file.Write("[1]\n");
    return testing::Contents(directory / "targets.json") == "[1]\n";
  }));
  CHECK(testing::EntriesOf(directory.path()) == 1);

  int troubles = 0, tries = 0;
  TargetsFile lost(loop, "/nowhere/targets.json", [&](const Status&) { ++troubles; });
  CHECK(run_until([&] {
    lost.Write("[]\n");
    return troubles > 0 && ++tries > 5;
  }));
  CHECK(troubles == 1);
}

}  // namespace
}  // namespace stepwatch::operations
