// A look at the config file in which an allocation fails, each of them in turn: no edit is lost.
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "tests/failing_memory.h"
#include "tests/reload/process_without_threads.h"
#include "tests/rounds.h"

namespace stepwatch::reload {
namespace {

using testing::ConfigText;

// Looks with the n-th allocation failing, from 0; false: there are not so many.
bool RefreshWithFailure(Process& process, int64_t n) {
  testing::memory_failure = {testing::Failure::kOnce, n + 1, false};
  process.Refresh();
  return std::exchange(testing::memory_failure, {}).has_failed;
}

// An allocation without which the look fails; a history without memory for a line has a gap, and the look goes on.
constexpr int64_t kOfTheParser = 40;

const std::string kOffText = ConfigText({.dynamic_on = false});
// Without files, whose failures have tests of their own.
const std::string kOnText = ConfigText({.collect_times = 2}, R"(, "format": "api")");

TEST_CASE(
    "an edit whose look runs out of memory is armed by the next look, and the state is never ahead of the slot "
    "holds") {
  int64_t n = 0;
  for (bool fails = true; fails; n += testing::Every(7)) {
    INFO("allocation " << n << " fails");
    Process process(kOffText);
    process.Save(kOnText);
    fails = RefreshWithFailure(process, n);
    const bool is_armed = process.plane.plans.plan_waiting();
    CHECK((process.reloader.state() == RunState::kArmed) == is_armed);
    CHECK((process.reloader.state() == RunState::kFailed) == !is_armed);
    CHECK(process.reloader.reports().fault().empty() == is_armed);
    CHECK(process.Count(EventKind::kDegraded) == (is_armed ? 0 : 1));
    process.Refresh();
    CHECK(process.reloader.reports().fault().empty());
    CHECK(process.Count(EventKind::kRecovered) == (is_armed ? 0 : 1));
    REQUIRE(process.reloader.state() == RunState::kArmed);
    REQUIRE(process.plane.plans.plan_waiting());
    CHECK(process.Count(EventKind::kRefused) == 0);
  }
  CHECK(n > 50);
}

TEST_CASE("an edit whose look runs out of memory is armed without another call: the watcher looks again") {
  Process process(kOffText);
  process.Save(kOnText);
  REQUIRE(RefreshWithFailure(process, kOfTheParser));
  REQUIRE(process.reloader.state() == RunState::kFailed);
  process.loop.run_for(std::chrono::milliseconds(1));
  while (!process.plane.plans.plan_waiting()) process.loop.run_one_for(std::chrono::seconds(10));
  CHECK(process.reloader.state() == RunState::kArmed);
  CHECK(process.Count(EventKind::kRecovered) == 1);
}

TEST_CASE("a plan that waits stays in the slot when the edit that is to replace it runs out of memory") {
  Process process(kOffText);
  process.Save(kOnText);
  process.Refresh();
  process.Save(ConfigText({.collect_times = 3}, R"(, "format": "api")"));
  REQUIRE(RefreshWithFailure(process, kOfTheParser));
  CHECK(process.plane.plans.plan_waiting());
  CHECK(process.reloader.state() == RunState::kArmed);
  CHECK_FALSE(process.reloader.reports().fault().empty());
  CHECK(process.Count(EventKind::kSuperseded) == 0);
  process.Refresh();
  CHECK(process.Count(EventKind::kSuperseded) == 1);
  CHECK(process.Count(EventKind::kArmed) == 2);
}

TEST_CASE(
    "whatever allocation fails while the manifest is written, the plan is armed in the end and the manifest is whole",
    "[slow]") {
  int64_t n = 0;
  for (bool fails = true; fails; n += testing::Every(7)) {
    INFO("allocation " << n << " fails");
    Process process(kOffText);
    process.Save(ConfigText({.collect_times = 2}));
    fails = RefreshWithFailure(process, n);
    process.Refresh();
    REQUIRE(process.plane.plans.plan_waiting());
    process.Save(ConfigText({.collect_times = 3}));
    process.Refresh();
    const std::string manifest = process.Manifest();
    CHECK(manifest.substr(0, 2) == "{\n");
    CHECK(manifest.substr(manifest.size() - 3) == "\n}\n");
    CHECK(manifest.find("\"state\": \"armed\"") != std::string::npos);
  }
  CHECK(n > 100);
}

TEST_CASE("whatever allocation fails while an order is carried out, the file is whole and the next order is done") {
  int64_t n = 0;
  for (bool fails = true; fails; n += testing::Every(7)) {
    INFO("allocation " << n << " fails");
    Process process(kOffText);
    const auto order = std::make_shared<EditOrder>();
    order->change.text = kOnText;
    order->change.peer = {1000, 7, "/usr/bin/stepwatch"};
    testing::memory_failure = {testing::Failure::kOnce, n + 1, false};
    try {
      process.reloader.requests().Order(order, [](const status::ChangeReport&) {});
      process.loop.poll();
    } catch (const std::bad_alloc&) {  // the loop of a monitor reports it and goes on
    }
    fails = std::exchange(testing::memory_failure, {}).has_failed;
    process.loop.poll();
    CHECK((process.Config() == kOffText || process.Config() == kOnText));
    int answers = 0;
    process.reloader.requests().Order(order, [&](const status::ChangeReport& report) {
      ++answers;
      CHECK(report.is_done());
    });
    process.loop.poll();
    process.Refresh();
    CHECK(answers == 1);
    CHECK(process.Config() == kOnText);
    REQUIRE(process.plane.plans.plan_waiting());
    CHECK(process.reloader.settled());
  }
  CHECK(n > 100);
}

}  // namespace
}  // namespace stepwatch::reload
