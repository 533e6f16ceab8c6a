// Hooks report from inside a step: nobody there waits for the user's function.
#include "front_ends/shared/reporter.h"

#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stepwatch/monitor.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::front_end {
namespace {

TEST_CASE("the first tensor that cannot be measured is reported while the user's function hangs") {
  testing::TemporaryDirectory directory;
  std::promise<void> entered;
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::vector<std::string> told;
  Options options;
  options.config_path = directory / "config.json";
  options.output_dir = directory / "out";
  options.dynamic = true;
  options.on_event = [&](const Event& event) {
    if (told.empty()) {
      entered.set_value();
      released.wait();
    }
    told.push_back(event.message);
  };
  auto created = Monitor::Create(options);
  REQUIRE(created.ok());
  const std::unique_ptr<Monitor> monitor = std::move(created).value();
  Reporter reporter;
  reporter.Warn("early");  // before the monitor is there
  reporter.Connect(monitor.get());
  entered.get_future().wait();
  reporter.Unmeasurable(SiteKind::kActv, "it is sparse");
  reporter.Unmeasurable(SiteKind::kActv, "it is sparse");
  release.set_value();
  REQUIRE(monitor->Close(std::chrono::seconds(10)).ok());
  reporter.Connect(nullptr);
  reporter.Warn("too late");
  REQUIRE(told.size() >= 2);
  CHECK(std::count(told.begin(), told.end(), "early") == 1);
  CHECK(
      told.back() ==
      "actv: a tensor cannot be measured because it is sparse; it and similar tensors have no rows and are counted as "
      "dropped");
}

}  // namespace
}  // namespace stepwatch::front_end
