// An edit for a later step, given at the control socket of a single process.
#include <nlohmann/json.hpp>

#include "tests/api/control_sockets.h"
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

Json Apply(const ControlSockets& sockets, const std::string& query, const std::string& text, int status = 200) {
  const JsonReply reply = sockets.Post("/v1/apply" + query, text);
  CHECK(reply.status == status);
  return reply.json;
}

TEST_CASE("an edit for a step begins there, written or volatile, and what runs goes on until then") {
  for (const bool is_volatile : {false, true}) {
    const ControlSockets sockets;
    StartedJob job(ConfigText({.collect_times = 100000}));
    job.TrainSteps(5);
    const Json reply = Apply(sockets, std::string("?at_step=12") + (is_volatile ? "&volatile=1" : ""),
                             ConfigText({.collect_times = 2}));
    CHECK(reply["outcome"] == (is_volatile ? "given" : "written"));
    CHECK(reply["taken"] == "armed");
    CHECK(reply["plan_id"] == 2);
    CHECK(reply["at_step"] == 12);
    CHECK(sockets.Status()["armed"]["at_step"] == 12);
    REQUIRE(job.Refresh() == RefreshOutcome::kUnchanged);
    job.TrainSteps(15);
    REQUIRE(job.WaitFor(EventKind::kDrained, 2));
    job.Close();
    CHECK(job.Events(EventKind::kApplied).at(1).step == 12);
    CHECK(job.Steps("grad_reduced") == From(1, 13));
  }
}

TEST_CASE("an edit for a step that is past, or runs, is for the next boundary, and the answer has that step") {
  for (const char* step : {"0", "3", "4", "5"}) {
    const ControlSockets sockets;
    StartedJob job(ConfigText(Off()));
    job.TrainSteps(4);
    CHECK(Apply(sockets, std::string("?at_step=") + step, ConfigText({.collect_times = 2}))["at_step"] == 5);
    job.TrainSteps(5);
    REQUIRE(job.WaitFor(EventKind::kDrained));
    job.Close();
    CHECK(job.Steps("grad_reduced") == Steps{5, 6});
  }
}

TEST_CASE(
    "an edit that waits for its step gives way to the next edit and is reported, but not to a refused one or to the "
    "same text") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 100000}));
  job.TrainSteps(3);
  const std::string waiting = ConfigText({.collect_times = 7});
  REQUIRE(Apply(sockets, "?at_step=50", waiting)["plan_id"] == 2);
  const Json again = Apply(sockets, "?at_step=60", waiting);
  CHECK(again["outcome"] == "unchanged");
  CHECK(again["at_step"] == 50);
  Apply(sockets, "?at_step=60", "{\"ops\": 3}", 422);
  CHECK(sockets.Status()["armed"]["at_step"] == 50);
  CHECK(Apply(sockets, "", ConfigText({.collect_times = 8}))["at_step"] == 4);
  REQUIRE(job.WaitFor(EventKind::kSuperseded));
  CHECK(job.Events(EventKind::kSuperseded)[0].plan_id == 2);
  // The text that had waited is like any other when somebody saves it again.
  CHECK(job.Edit(waiting) == RefreshOutcome::kArmed);
  job.TrainSteps(10);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  job.Close();
  CHECK(job.Events(EventKind::kApplied).size() == 2);
  CHECK(job.Events(EventKind::kApplied)[1].step == 4);
}

TEST_CASE("a stop takes the place of what waits for its step, and has no step itself") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 100000}));
  job.TrainSteps(3);
  const Json refused = Apply(sockets, "?at_step=9", ConfigText(Off()), 422);
  CHECK(Has(refused["error"]["message"].get<std::string>(), "a step to begin at requires a config that collects"));
  CHECK(Contents(job.config_path) == ConfigText({.collect_times = 100000}));
  Apply(sockets, "?at_step=9&volatile=1", ConfigText(Off()), 422);
  Apply(sockets, "?at_step=9", ConfigText({.collect_times = 7}));
  CHECK(Apply(sockets, "", ConfigText(Off()))["taken"] == "stopping");
  job.TrainSteps(10);
  REQUIRE(job.WaitFor(EventKind::kDrained));
  job.Close();
  CHECK(job.Count(EventKind::kSuperseded) == 1);
  CHECK(job.Steps("grad_reduced") == Steps{1, 2, 3});
}

TEST_CASE("while an edit waits for its step the window in force may end, pause, and its model may grow") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 10}));
  job.TrainSteps(3);
  Apply(sockets, "?at_step=30", ConfigText({.collect_times = 2}));
  REQUIRE(job.Attach().ok());
  CHECK(sockets.Post("/v1/pause").status == 202);
  job.TrainStep();
  CHECK(job.monitor->GetStatus().paused);
  CHECK(sockets.Post("/v1/resume").status == 202);
  job.TrainSteps(20);
  REQUIRE(job.WaitFor(EventKind::kFinished));
  CHECK(sockets.Status()["state"] == "ARMED");
  job.TrainSteps(12);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  job.Close();
  const Steps steps = job.Steps("grad_reduced");
  CHECK(std::vector(steps.end() - 2, steps.end()) == Steps{30, 31});
  CHECK(steps.size() == 12);
}

TEST_CASE("an edit that somebody saves at the moment of the order does not take its step") {
  const ControlSockets sockets;
  StartedJob job(ConfigText(Off()));
  job.TrainSteps(2);
  Apply(sockets, "?at_step=40", ConfigText({.collect_times = 7}));
  CHECK(job.Edit(ConfigText({.collect_times = 3})) == RefreshOutcome::kArmed);
  job.TrainSteps(5);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  job.Close();
  CHECK(job.Steps("grad_reduced") == Steps{3, 4, 5});
}

}  // namespace
}  // namespace stepwatch::testing
