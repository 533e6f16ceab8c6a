// Bytes that run although the config file holds others.
#include <functional>
#include <memory>
#include <string>

#include "stepwatch/stores.h"
#include "tests/reload/process_without_threads.h"

namespace stepwatch::reload {
namespace {

using step::EndReason;
using testing::ConfigText;
using Outcome = status::ChangeReport::Outcome;

const std::string kFile = ConfigText({.collect_times = 5});
const std::string kOverride = ConfigText({.collect_times = 1, .gradients = false});

// Ends the window of the plan as the drain would.
void Drain(Process* process, PlanId plan_id, int64_t step, EndReason reason) {
  process->Post(drain::PlanFinished{.plan_id = plan_id, .reason = reason, .last_step = step, .collected = 1});
  process->Post(drain::PlanDrained{.plan_id = plan_id, .reason = reason, .collected = 1, .ledger = {}});
  process->loop.poll();
}

// A window of the file's bytes, and then one of the override.
void RunOverride(Process* process) {
  process->plane.plans.EndStep();
  process->Post(drain::PlanBegan{.plan_id = 1, .first_step = 1});
  CHECK(process->reloader.requests().Override(kOverride).outcome == Outcome::kOverridden);
  CHECK(process->reloader.state() == RunState::kArmed);
  process->plane.plans.EndStep();
  process->Post(drain::PlanBegan{.plan_id = 2, .first_step = 2});
  Drain(process, 1, 1, EndReason::kReplaced);
}

TEST_CASE("overriding bytes run, are not written into the file, and are shown as other than those of the file") {
  Process process(kFile);
  RunOverride(&process);
  const status::ReloadStatus status = process.reloader.View().status;
  CHECK(status.overridden);
  REQUIRE(status.in_force);
  CHECK(status.in_force->collect_times == 1);
  CHECK(status.file_sha256 != status.in_force->config_sha256);
  CHECK(process.reloader.requests().Override(kOverride).outcome == Outcome::kUnchanged);
  process.Refresh();  // the file is as it was
  CHECK(process.reloader.state() == RunState::kCollecting);

  process.plane.plans.EndStep();
  Drain(&process, 2, 2, EndReason::kTimes);
  CHECK(process.reloader.state() == RunState::kIdle);
  CHECK(process.Config() == kFile);
  CHECK(process.Count(EventKind::kWroteBack) == 0);
  CHECK(process.reloader.View().status.overridden);
  process.Refresh();
  CHECK(process.reloader.state() == RunState::kIdle);
  CHECK(process.reloader.requests().Override(kOverride).outcome == Outcome::kOverridden);  // again
  CHECK(process.reloader.state() == RunState::kArmed);
}

TEST_CASE("the file takes the place of overriding bytes when it changes") {
  Process process(kFile);
  RunOverride(&process);
  process.Save(ConfigText({.collect_times = 7}));
  process.Refresh();
  CHECK_FALSE(process.reloader.View().status.overridden);
  CHECK(process.reloader.state() == RunState::kArmed);
  CHECK(process.reloader.View().status.armed->collect_times == 7);
}

TEST_CASE("a file that comes to hold the overriding bytes is in step with what runs, and is written back") {
  Process process(kFile);
  RunOverride(&process);
  process.Save(kOverride);
  process.Refresh();
  CHECK_FALSE(process.reloader.View().status.overridden);
  CHECK(process.reloader.state() == RunState::kCollecting);
  process.plane.plans.EndStep();
  Drain(&process, 2, 2, EndReason::kTimes);
  CHECK(process.Count(EventKind::kWroteBack) == 1);
  CHECK(process.Config() == ConfigText({.dynamic_on = false, .collect_times = 1, .gradients = false}));
}

TEST_CASE("an override on rank 0 runs on all ranks from one step, and no other rank accepts one") {
  const std::shared_ptr<Store> store = MakeMemoryStore();
  const auto rank = [&](int number) {
    return [=](Options* options) {
      options->rank = number;
      options->world_size = 2;
      options->store = store;
    };
  };
  const std::string off = ConfigText(testing::Off());
  Process zero(off, rank(0)), one(off, rank(1));
  const auto turn_until = [&](const std::function<bool()>& condition) {
    return testing::Eventually([&] {
      zero.loop.poll(), one.loop.poll();
      return condition();
    });
  };
  REQUIRE(turn_until([&] { return zero.Count(EventKind::kSeen) == 1; }));
  CHECK(one.reloader.requests().Override(kOverride).outcome == Outcome::kNotReader);
  CHECK(zero.reloader.requests().Override(kOverride).outcome == Outcome::kOverridden);
  REQUIRE(turn_until([&] { return zero.Count(EventKind::kArmed) == 1 && one.Count(EventKind::kArmed) == 1; }));
  while (zero.plane.plans.plan_id() == 0 && zero.plane.running.number() < 10) {
    zero.plane.plans.EndStep(), one.plane.plans.EndStep();
    CHECK(zero.plane.plans.plan_id() == one.plane.plans.plan_id());
  }
  CHECK(zero.plane.plans.plan_id() == 1);
  CHECK(zero.reloader.View().status.overridden);
  CHECK(zero.Config() == off);
}

TEST_CASE("overriding bytes that are unusable change nothing, and the result has their place") {
  Process process(kFile);
  process.plane.plans.EndStep();
  process.Post(drain::PlanBegan{.plan_id = 1, .first_step = 1});
  const status::ChangeReport result = process.reloader.requests().Override("{\n  \"ops\": 3\n}");
  CHECK(result.outcome == Outcome::kInvalid);
  CHECK(result.place.line == 2);
  CHECK(process.reloader.state() == RunState::kCollecting);
  CHECK_FALSE(process.reloader.View().status.overridden);
  CHECK(process.Count(EventKind::kRefused) == 0);
}

TEST_CASE("a stop can override the file, and a second time changes nothing") {
  Process process(kFile);
  process.plane.plans.EndStep();
  process.Post(drain::PlanBegan{.plan_id = 1, .first_step = 1});
  CHECK(process.reloader.requests().Override(ConfigText({.dynamic_on = false})).outcome == Outcome::kOverridden);
  CHECK(process.Count(EventKind::kStopping) == 1);
  process.plane.plans.EndStep();
  CHECK(process.plane.plans.plan_id() == 0);
  Drain(&process, 1, 1, EndReason::kStopped);
  CHECK(process.Config() == kFile);
  (void)process.reloader.requests().Override(ConfigText({.dynamic_on = false}));
  CHECK(process.Count(EventKind::kStopping) == 1);
  process.Refresh();
  CHECK(process.reloader.state() == RunState::kIdle);
}

}  // namespace
}  // namespace stepwatch::reload
