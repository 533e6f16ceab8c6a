// A look at the config file in which an allocation fails, each of them in turn: no edit is lost.
//
// The reloader runs on the thread of the test, on a loop that the test turns by hand.
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "controller/reload/reloader.h"
#include "src/testing/synthetic_model.h"
#include "tests/api/job.h"
#include "tests/failing_memory.h"

namespace stepwatch::reload {
namespace {

using testing::ConfigText;
using testing::Contents;
using testing::TemporaryDirectory;
using testing::WriteByRename;

// Looks are made on this thread, where the allocations fail.
struct InlineIo final : base::IoExecutor {
  bool Post(std::function<void()> work) override {
    work();
    return true;
  }
};

// A monitor without its threads. Nothing drains, so what is armed stays armed until the test ends a step.
class Process {
 public:
  explicit Process(const std::string& config) {
    WriteByRename(options_.config_path, config);
    events_.reserve(1000);
    REQUIRE(reloader.Attach(model_.Sites()).status.ok());
    loop.poll();
  }
  ~Process() {
    reloader.StopWatching();
    plane.plans.Close();
  }

  void Save(const std::string& config) { WriteByRename(options_.config_path, config); }
  void Refresh() {
    reloader.Refresh();
    loop.poll();
  }
  // Looks with the n-th allocation failing, from 0; false: there are not so many.
  bool RefreshWithFailure(int64_t n) {
    testing::memory_failure = {testing::Failure::kOnce, n + 1, false};
    Refresh();
    return std::exchange(testing::memory_failure, {}).has_failed;
  }
  std::string Manifest() const { return Contents(reloader.output_dir() + "/manifest.json"); }
  int64_t Count(EventKind kind) const {
    return std::count_if(events_.begin(), events_.end(), [&](const Event& event) { return event.kind == kind; });
  }

 private:
  static Options OptionsIn(const TemporaryDirectory& directory) {
    Options options;
    options.config_path = directory / "config.json";
    options.output_dir = directory / "out";
    options.dynamic = true;
    options.run_id = "0123456789abcdef";
    options.use_inotify = false;
    options.look_interval = std::chrono::hours(1);
    return options;
  }

  TemporaryDirectory directory_{testing::PlaceInMemory()};
  const Options options_ = OptionsIn(directory_);
  testing::SyntheticModel model_{2, 8, 1};
  std::vector<Event> events_;
  step::WakeUp wake_up_;
  drain::StatusBoard board_{[] {}};
  stats::Engine engine_{stats::EngineOptions{}};

 public:
  boost::asio::io_context loop;
  step::DataPlane plane{0, &engine_, &wake_up_};

 private:
  InlineIo io_;
  drain::Drain drain_{&board_, &engine_, &wake_up_, &plane.plans.begun_plans(), size_t{64} << 20};

 public:
  Reloader reloader{options_, true, {&loop, &plane, &drain_, &board_, &io_, &io_}, [this](Event event) {
                      events_.push_back(std::move(event));
                    }};
};

const std::string kOffText = ConfigText({.dynamic_on = false});
// Without files, whose failures are told apart.
const std::string kOnText = ConfigText({.collect_times = 2}, R"(, "format": "api")");

TEST_CASE(
    "an edit whose look runs out of memory is armed by the next look, and the state never says more than the slot "
    "holds") {
  int64_t n = 0;
  for (bool fails = true; fails; ++n) {
    INFO("allocation " << n << " fails");
    Process process(kOffText);
    process.Save(kOnText);
    fails = process.RefreshWithFailure(n);
    const bool is_armed = process.plane.plans.plan_waiting();
    CHECK((process.reloader.state() == RunState::kArmed) == is_armed);
    CHECK((process.reloader.state() == RunState::kFailed) == !is_armed);
    CHECK(process.reloader.fault().empty() == is_armed);
    CHECK(process.Count(EventKind::kDegraded) == (is_armed ? 0 : 1));
    process.Refresh();
    CHECK(process.reloader.fault().empty());
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
  REQUIRE(process.RefreshWithFailure(20));
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
  REQUIRE(process.RefreshWithFailure(20));
  CHECK(process.plane.plans.plan_waiting());
  CHECK(process.reloader.state() == RunState::kArmed);
  CHECK_FALSE(process.reloader.fault().empty());
  CHECK(process.Count(EventKind::kSuperseded) == 0);
  process.Refresh();
  CHECK(process.Count(EventKind::kSuperseded) == 1);
  CHECK(process.Count(EventKind::kArmed) == 2);
}

TEST_CASE(
    "whatever allocation fails while the manifest is written, the plan is armed in the end and the manifest is whole") {
  int64_t n = 0;
  for (bool fails = true; fails; ++n) {
    INFO("allocation " << n << " fails");
    Process process(kOffText);
    process.Save(ConfigText({.collect_times = 2}));
    fails = process.RefreshWithFailure(n);
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

}  // namespace
}  // namespace stepwatch::reload
