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
using Outcome = GivenVerdict::Outcome;

const std::string kFile = ConfigText({.collect_times = 5});
const std::string kGiven = ConfigText({.collect_times = 1, .gradients = false});

// Ends the window of the plan as the drain would.
void Drain(Process* process, PlanId plan_id, int64_t step, EndReason reason) {
  process->Tell(drain::PlanFinished{.plan_id = plan_id, .reason = reason, .last_step = step, .collected = 1});
  process->Tell(drain::PlanDrained{.plan_id = plan_id, .reason = reason, .collected = 1, .ledger = {}});
  process->loop.poll();
}

// A window of the file's bytes, and then one of the given ones.
void RunGiven(Process* process) {
  process->plane.plans.EndStep();
  process->Tell(drain::PlanBegan{.plan_id = 1, .first_step = 1});
  CHECK(process->reloader.Give(kGiven).outcome == Outcome::kTaken);
  CHECK(process->reloader.state() == RunState::kArmed);
  process->plane.plans.EndStep();
  process->Tell(drain::PlanBegan{.plan_id = 2, .first_step = 2});
  Drain(process, 1, 1, EndReason::kReplaced);
}

TEST_CASE("given bytes run, are not written into the file, and are shown as other than those of the file") {
  Process process(kFile);
  RunGiven(&process);
  ReloadView view = process.reloader.View();
  CHECK(view.given);
  REQUIRE(view.in_force);
  CHECK(view.in_force->collect_times == 1);
  CHECK(view.file_sha256 != view.in_force->config_sha256);
  CHECK(process.reloader.Give(kGiven).outcome == Outcome::kUnchanged);
  process.Refresh();  // the file is as it was
  CHECK(process.reloader.state() == RunState::kCollecting);

  process.plane.plans.EndStep();
  Drain(&process, 2, 2, EndReason::kTimes);
  CHECK(process.reloader.state() == RunState::kIdle);
  CHECK(process.Config() == kFile);
  CHECK(process.Count(EventKind::kWroteBack) == 0);
  CHECK(process.reloader.View().given);
  process.Refresh();
  CHECK(process.reloader.state() == RunState::kIdle);
  CHECK(process.reloader.Give(kGiven).outcome == Outcome::kTaken);  // again
  CHECK(process.reloader.state() == RunState::kArmed);
}

TEST_CASE("the file takes the place of given bytes when it changes") {
  Process process(kFile);
  RunGiven(&process);
  process.Save(ConfigText({.collect_times = 7}));
  process.Refresh();
  CHECK_FALSE(process.reloader.View().given);
  CHECK(process.reloader.state() == RunState::kArmed);
  CHECK(process.reloader.View().armed->collect_times == 7);
}

TEST_CASE("a file that comes to hold the given bytes is in step with what runs, and is written back") {
  Process process(kFile);
  RunGiven(&process);
  process.Save(kGiven);
  process.Refresh();
  CHECK_FALSE(process.reloader.View().given);
  CHECK(process.reloader.state() == RunState::kCollecting);
  process.plane.plans.EndStep();
  Drain(&process, 2, 2, EndReason::kTimes);
  CHECK(process.Count(EventKind::kWroteBack) == 1);
  CHECK(process.Config() == ConfigText({.dynamic_on = false, .collect_times = 1, .gradients = false}));
}

TEST_CASE("bytes that are given to rank 0 run on all ranks from one step, and no other rank takes any") {
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
  CHECK(one.reloader.Give(kGiven).outcome == Outcome::kNotReader);
  CHECK(zero.reloader.Give(kGiven).outcome == Outcome::kTaken);
  REQUIRE(turn_until([&] { return zero.Count(EventKind::kArmed) == 1 && one.Count(EventKind::kArmed) == 1; }));
  while (zero.plane.plans.plan_id() == 0 && zero.plane.running.number() < 10) {
    zero.plane.plans.EndStep(), one.plane.plans.EndStep();
    CHECK(zero.plane.plans.plan_id() == one.plane.plans.plan_id());
  }
  CHECK(zero.plane.plans.plan_id() == 1);
  CHECK(zero.reloader.View().given);
  CHECK(zero.Config() == off);
}

TEST_CASE("given bytes that are unusable change nothing, and say where they are") {
  Process process(kFile);
  process.plane.plans.EndStep();
  process.Tell(drain::PlanBegan{.plan_id = 1, .first_step = 1});
  const GivenVerdict verdict = process.reloader.Give("{\n  \"ops\": 3\n}");
  CHECK(verdict.outcome == Outcome::kRefused);
  CHECK(verdict.refusal.place().line == 2);
  CHECK(process.reloader.state() == RunState::kCollecting);
  CHECK_FALSE(process.reloader.View().given);
  CHECK(process.Count(EventKind::kRefused) == 0);
}

TEST_CASE("a stop can be given, and given once more is no news") {
  Process process(kFile);
  process.plane.plans.EndStep();
  process.Tell(drain::PlanBegan{.plan_id = 1, .first_step = 1});
  CHECK(process.reloader.Give(ConfigText({.dynamic_on = false})).outcome == Outcome::kTaken);
  CHECK(process.Count(EventKind::kStopping) == 1);
  process.plane.plans.EndStep();
  CHECK(process.plane.plans.plan_id() == 0);
  Drain(&process, 1, 1, EndReason::kStopped);
  CHECK(process.Config() == kFile);
  (void)process.reloader.Give(ConfigText({.dynamic_on = false}));
  CHECK(process.Count(EventKind::kStopping) == 1);
  process.Refresh();
  CHECK(process.reloader.state() == RunState::kIdle);
}

}  // namespace
}  // namespace stepwatch::reload
