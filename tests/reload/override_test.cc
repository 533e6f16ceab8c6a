// Bytes that run although the config file holds others.
#include <functional>
#include <memory>
#include <string>

#include "stepwatch/stores.h"
#include "tests/reload/process_without_threads.h"

namespace stepwatch::reload {
namespace {

using testing::ConfigText;
using Outcome = status::ChangeReport::Outcome;

const std::string kOverride = ConfigText({.collect_times = 1, .gradients = false});

status::ConfigChange Change(const std::string& text, bool returns = false) {
  status::ConfigChange change;
  change.text = text;
  change.is_override = true;
  change.returns = returns;
  return change;
}

TEST_CASE("after the window of an override that returns the config of the file takes effect again") {
  const std::string in_file = ConfigText({.collect_times = 5});
  Process process(in_file);
  REQUIRE(testing::Eventually([&] { return process.loop.poll(), process.Count(EventKind::kArmed) == 1; }));
  process.plane.plans.EndStep();
  CHECK(process.reloader.requests().Override(Change(testing::ConfigText(testing::Off()), true)).outcome ==
        Outcome::kInvalid);
  REQUIRE(process.reloader.requests().Override(Change(kOverride, true)).outcome == Outcome::kOverridden);
  REQUIRE(testing::Eventually([&] { return process.loop.poll(), process.Count(EventKind::kArmed) == 2; }));
  process.plane.plans.EndStep();
  CHECK(process.plane.plans.plan_id() == 2);
  CHECK(process.reloader.View().status.overridden);
  process.plane.plans.EndStep();
  CHECK(process.plane.plans.plan_id() == 0);
  process.Post(drain::PlanBegan{.plan_id = 2, .first_step = 2});
  process.Post(drain::PlanFinished{.plan_id = 2, .reason = step::EndReason::kTimes, .last_step = 2, .collected = 1});
  process.Post(drain::PlanDrained{.plan_id = 2, .reason = step::EndReason::kTimes, .collected = 1, .ledger = {}});
  REQUIRE(testing::Eventually([&] { return process.loop.poll(), process.Count(EventKind::kArmed) == 3; }));
  CHECK_FALSE(process.reloader.View().status.overridden);
  CHECK(process.Config() == in_file);
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
  CHECK(one.reloader.requests().Override(Change(kOverride)).outcome == Outcome::kNotReader);
  CHECK(zero.reloader.requests().Override(Change(kOverride)).outcome == Outcome::kOverridden);
  REQUIRE(turn_until([&] { return zero.Count(EventKind::kArmed) == 1 && one.Count(EventKind::kArmed) == 1; }));
  while (zero.plane.plans.plan_id() == 0 && zero.plane.running.number() < 10) {
    zero.plane.plans.EndStep(), one.plane.plans.EndStep();
    CHECK(zero.plane.plans.plan_id() == one.plane.plans.plan_id());
  }
  CHECK(zero.plane.plans.plan_id() == 1);
  CHECK(zero.reloader.View().status.overridden);
  CHECK(zero.Config() == off);
}

}  // namespace
}  // namespace stepwatch::reload
