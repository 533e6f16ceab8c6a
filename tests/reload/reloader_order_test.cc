// In which order the end of a window is written down.
#include <string>

#include "tests/reload/process_without_threads.h"

namespace stepwatch::reload {
namespace {

using step::EndReason;
using testing::ConfigText;

TEST_CASE("the account of a plan is in the manifest before the write-back and before the event of its end") {
  Process process(ConfigText({.collect_times = 1}));
  process.plane.plans.EndStep();
  process.Post(drain::PlanBegan{.plan_id = 1, .first_step = 1});
  process.Post(drain::PlanFinished{.plan_id = 1, .reason = EndReason::kTimes, .last_step = 1, .collected = 1});
  process.loop.poll();
  REQUIRE(process.reloader.state() == RunState::kDraining);
  process.config_io.Hold();
  process.output_io.Hold();
  process.Post(drain::PlanDrained{
      .plan_id = 1, .reason = EndReason::kTimes, .collected = 1, .ledger = {.produced = 6, .written = 6}});
  CHECK(process.output_io.held() == 2);  // history and manifest
  CHECK(process.config_io.held() == 0);
  CHECK(process.Count(EventKind::kDrained) == 0);

  process.output_io.LetGo();
  CHECK(process.Manifest().find("\"produced\": 6") != std::string::npos);
  CHECK(process.Count(EventKind::kDrained) == 0);
  process.loop.poll();
  CHECK(process.Count(EventKind::kDrained) == 1);
  CHECK(process.config_io.held() == 1);
  CHECK(process.Config() == ConfigText({.collect_times = 1}));

  process.config_io.LetGo();
  CHECK(process.Config() == ConfigText({.dynamic_on = false, .collect_times = 1}));
  process.loop.poll();
  CHECK(process.Count(EventKind::kWroteBack) == 1);
  CHECK(process.reloader.state() == RunState::kIdle);
}

}  // namespace
}  // namespace stepwatch::reload
