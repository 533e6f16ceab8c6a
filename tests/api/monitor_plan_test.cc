// POST /v1/plan of a real monitor: the effect that a config would have, while the monitor goes on.

#include <nlohmann/json.hpp>
#include <utility>

#include "tests/api/control_sockets.h"
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

Json Preview(const ControlSockets& sockets, const std::string& text) {
  const JsonReply reply = sockets.Post("/v1/plan", text);
  REQUIRE(reply.status == 200);
  return reply.json;
}

std::string Keys(const Json& preview) {
  std::string keys;
  for (const Json& each : preview["differences"]) keys += (keys.empty() ? "" : " ") + each["key"].get<std::string>();
  return keys;
}

// added, removed, kept
std::vector<int> SitesOf(const Json& preview, const std::string& kind) {
  for (const Json& each : preview["sites"])
    if (each["kind"] == kind) return {each["added"], each["removed"], each["kept"]};
  return {};
}

TEST_CASE("while nothing runs a config is compared with the one in the file") {
  const ControlSockets sockets;
  StartedJob job(ConfigText(Off()));
  const Json same = Preview(sockets, ConfigText(Off()));
  CHECK(same["state"] == "same");
  CHECK(same["effect"] == "nothing");
  CHECK(same["compared_with"] == "file");
  CHECK(same["running"].is_null());
  CHECK(same["proposed"].is_null());
  CHECK(same["sites"].empty());

  const Json on = Preview(sockets, ConfigText({.collect_times = 3}));
  CHECK(on["state"] == "differs");
  CHECK(on["effect"] == "collects");
  CHECK(Keys(on) == "dynamic_on collect_times");
  CHECK(on["proposed"]["collect_times"] == 3);
  CHECK(on["proposed"]["rows_per_step"] > 0);
  CHECK(SitesOf(on, "grad_reduced") == std::vector<int>{static_cast<int>(job.model.Sites().parameters.size()), 0, 0});
  CHECK(on.count("measured") == 0);
  // The preview arms no plan.
  job.TrainSteps(2);
  CHECK(sockets.Status()["state"] == "IDLE");
  CHECK(job.Count(EventKind::kArmed) == 0);
}

TEST_CASE("a config is compared with the plan that runs") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 50}));
  job.TrainSteps(2);
  const std::string running = ConfigText({.collect_times = 50});
  Json preview = Preview(sockets, running);
  CHECK(preview["state"] == "same");
  CHECK(preview["effect"] == "nothing");
  CHECK(preview["compared_with"] == "plan");
  CHECK(preview["running"]["plan_id"] == 1);
  CHECK(preview["running"]["config_sha256"] == sockets.Status()["running_sha256"]);
  CHECK(preview["running"]["rows_per_step"] == sockets.Status()["plan"]["rows_per_step"]);

  preview = Preview(sockets, running + "// saved again\n");
  CHECK(preview["state"] == "same");
  CHECK(preview["effect"] == "collects");  // anew

  const int parameters = static_cast<int>(job.model.Sites().parameters.size());
  preview = Preview(sockets, ConfigText({.collect_times = 50, .step_interval = 2, .gradients = false}));
  CHECK(preview["state"] == "differs");
  CHECK(Keys(preview) == "wg_distribution param_distribution step_interval");
  CHECK(SitesOf(preview, "grad_reduced") == std::vector<int>{0, parameters, 0});
  CHECK(SitesOf(preview, "param_origin") == std::vector<int>{parameters, 0, 0});
  CHECK(preview["differences"][2]["was"] == 1);
  CHECK(preview["differences"][2]["now"] == 2);

  preview = Preview(sockets, ConfigText(Off()));
  CHECK(preview["effect"] == "stops");
  CHECK(preview["proposed"].is_null());
  CHECK(SitesOf(preview, "grad_reduced") == std::vector<int>{0, parameters, 0});
  job.TrainStep();
  CHECK(sockets.Status()["state"] == "COLLECTING");
}

TEST_CASE("a config that would be refused has its place, whatever runs") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 50}));
  const Json invalid = Preview(sockets, "{\n  \"ops\": \"norm\"\n}");
  CHECK(invalid["state"] == "invalid");
  CHECK(invalid["error"]["line"] == 2);
  CHECK(invalid["error"]["column"] == 10);
  CHECK(invalid["error"]["key"] == "ops");
  CHECK(Preview(sockets, "")["state"] == "invalid");
  CHECK(Preview(sockets, std::string("\xff\x00{", 3))["state"] == "invalid");
  CHECK(Preview(sockets, R"({"dynamic_on": true, "opps": []})")["warnings"][0]["key"] == "opps");
  CHECK(job.Count(EventKind::kRefused) == 0);
}

TEST_CASE("a window that is over is shown with its cost, and its text in the file begins no other") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 2}));
  job.TrainSteps(5);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  const Json written_back = Preview(sockets, Contents(job.config_path));
  CHECK(written_back["state"] == "same");
  CHECK(written_back["effect"] == "nothing");
  CHECK(written_back["measured"]["plan_id"] == 1);
  CHECK(written_back["measured"]["collected"] == 2);
  CHECK(written_back["measured"]["seconds_per_collected_step"] > 0);
  const Json again = Preview(sockets, ConfigText({.collect_times = 2}));
  CHECK(again["state"] == "differs");
  CHECK(Keys(again) == "dynamic_on");
  CHECK(again["effect"] == "collects");
  REQUIRE(!again["sites"].empty());
  for (const Json& kind : again["sites"]) CHECK(kind["seconds_per_collected_step"] > 0);
  const Json other = Preview(sockets, ConfigText({.collect_times = 2, .gradients = false}));
  bool is_known = true;
  for (const Json& kind : other["sites"])
    if (kind["kind"] == "param_origin") is_known = !kind["seconds_per_collected_step"].is_null();
  CHECK_FALSE(is_known);
}

TEST_CASE("a config is compared with the ops that the program has set") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 50}));
  job.TrainSteps(2);
  REQUIRE(job.monitor->Amend(Ops({"max"})).ok());
  const Json preview = Preview(sockets, ConfigText({.collect_times = 50}));
  CHECK(preview["state"] == "differs");
  CHECK(Keys(preview) == "ops");
}

TEST_CASE("in static mode a config holds when the job starts again") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 50}));
  job.options.dynamic = false;
  job.Start();
  job.TrainSteps(2);
  CHECK(Preview(sockets, ConfigText({.collect_times = 50}))["state"] == "same");
  const Json preview = Preview(sockets, ConfigText({.collect_times = 60}));
  CHECK(preview["state"] == "differs");
  CHECK(preview["effect"] == "at_restart");
}

}  // namespace
}  // namespace stepwatch::testing
