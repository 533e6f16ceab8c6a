// Verbs that change the config through the control socket of a real monitor: the file is written, and the monitor takes
// it up.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/base/sha256.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "tests/api/job.h"
#include "tests/api/ranked_job.h"
#include "tests/hooked_files.h"
#include "tests/variable.h"

namespace stepwatch::testing {
namespace {

struct Answered {
  int status = 0;
  Json json;
};

// A job with its control socket in a directory of the test's.
struct SteeredJob {
  explicit SteeredJob(const std::string& config) : job(config) {}

  http::Client client() {
    if (socket.empty())
      REQUIRE(Eventually([&] {
        const auto found = control_socket::FindJobs({.directories = {runtime}});
        if (found.size() == 1) socket = found.front().path;
        return !socket.empty();
      }));
    return http::Client(socket);
  }
  Answered Post(const std::string& target, const std::string& body = "", const std::string& if_match = "",
                const std::string& id = "") {
    const auto reply = client().Ask({"POST", target, body, if_match, id}, std::chrono::seconds(20));
    REQUIRE(reply.status().ToString() == "ok");
    return {reply.value().status, json::Parse(reply.value().body).value()};
  }
  Json Get(const std::string& target) {
    const auto reply = client().Get(target);
    REQUIRE(reply.status().ToString() == "ok");
    return json::Parse(reply.value().body).value();
  }
  std::string File() const { return Contents(job.config_path); }
  // Trains until this is so.
  bool TrainUntil(const std::function<bool()>& condition) {
    return Eventually([&] {
      job.TrainStep();
      return condition();
    });
  }

  TemporaryDirectory directory;
  const std::string runtime = directory / "run";
  const Variable variable{"STEPWATCH_RUNTIME_DIR", runtime};
  std::string socket;
  Job job;
};

TEST_CASE(
    "a text that is applied through the control socket is in the file and armed, and the history says who sent it") {
  SteeredJob steered(ConfigText(Off()));
  Job& job = steered.job;
  job.Start();
  const std::string text = ConfigText({.collect_times = 2});
  const Answered applied = steered.Post("/v1/apply", text);
  REQUIRE(applied.status == 200);
  CHECK(applied.json["outcome"] == "written");
  CHECK(applied.json["config"] == job.config_path);
  CHECK(applied.json["replaced_sha256"] == base::Sha256Hex(ConfigText(Off())));
  CHECK(applied.json["sha256"] == base::Sha256Hex(text));
  CHECK(applied.json["taken"] == "armed");
  CHECK(applied.json["plan_id"] == 1);
  CHECK(applied.json["at_step"] == job.monitor->step() + 1);
  CHECK(steered.File() == text);
  CHECK(steered.Get("/v1/status")["armed"]["plan_id"] == 1);
  REQUIRE(steered.TrainUntil([&] { return job.Count(EventKind::kWroteBack) == 1; }));

  const std::vector<Event> seen = job.Events(EventKind::kSeen);
  CHECK(seen.back().message.find("through the control socket: uid " + std::to_string(::geteuid()) + ", pid " +
                                 std::to_string(::getpid())) != std::string::npos);
  Json history;
  REQUIRE(Eventually([&] {
    history = steered.Get("/v1/history");
    return history.contains("lines") && history["lines"].size() == 2;
  }));
  CHECK(history["lines"][0]["outcome"] == "applied");
  CHECK(history["lines"][1]["outcome"] == "finished");
  CHECK(history["lines"][0]["peer"]["uid"] == ::geteuid());
  CHECK(history["lines"][0]["peer"]["pid"] == ::getpid());
  CHECK(history["lines"][0]["owner_uid"] == ::geteuid());
  CHECK(steered.client().Get("/v1/configs/" + base::Sha256Hex(text)).value().body == text);

  REQUIRE(job.Edit(ConfigText({.collect_times = 3})) == RefreshOutcome::kArmed);
  REQUIRE(steered.TrainUntil([&] { return job.Count(EventKind::kWroteBack) == 2; }));
  REQUIRE(Eventually([&] { return steered.Get("/v1/history")["lines"].size() == 4; }));
  CHECK_FALSE(steered.Get("/v1/history")["lines"][2].contains("peer"));  // saved in the file
}

TEST_CASE("a history with a line of 50 MB is answered, and a rollback finds what is in its other lines") {
  const std::string first = ConfigText({.collect_times = 2});
  SteeredJob steered(first);
  Job& job = steered.job;
  job.Start();
  REQUIRE(steered.TrainUntil([&] { return job.Count(EventKind::kWroteBack) == 1; }));
  REQUIRE(job.Edit(ConfigText({.collect_times = 100})) == RefreshOutcome::kArmed);
  REQUIRE(steered.TrainUntil([&] { return job.Count(EventKind::kApplied) == 2; }));
  const auto applied = [&] {
    const Json history = steered.Get("/v1/history");
    return history.contains("lines") && history["lines"].size() == 3;
  };
  REQUIRE(Eventually(applied));
  const std::string path = steered.Get("/v1/history")["directory"].get<std::string>() + "/stepwatch_history.jsonl";
  const size_t bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, bytes + (size_t{50} << 20));
  const Json history = steered.Get("/v1/history?limit=1");
  REQUIRE(history["lines"].size() == 1);
  CHECK(history["lines_in_all"] == 3);
  CHECK(history["notes"].size() == 1);
  const Answered back = steered.Post("/v1/rollback");
  CHECK(back.status == 200);
  CHECK(steered.File() == first);
}

TEST_CASE("start, stop and rollback change the file, and the plan follows") {
  SteeredJob steered(ConfigText({.dynamic_on = false, .collect_times = 100}));
  Job& job = steered.job;
  job.Start();
  const std::string off = steered.File();
  Answered started = steered.Post("/v1/start");
  REQUIRE(started.status == 200);
  CHECK(started.json["taken"] == "armed");
  CHECK(steered.File() == ConfigText({.collect_times = 100}));
  CHECK(steered.Post("/v1/start").json["outcome"] == "unchanged");
  REQUIRE(steered.TrainUntil([&] { return job.Count(EventKind::kApplied) == 1; }));
  CHECK(steered.Post("/v1/start").json["taken"] == "running");
  const Answered stopped = steered.Post("/v1/stop");
  CHECK(stopped.json["taken"] == "stopping");
  CHECK(stopped.json["plan_id"] == 1);
  CHECK(steered.File() == off);
  REQUIRE(steered.TrainUntil([&] { return job.Count(EventKind::kDrained) == 1; }));
  CHECK(steered.Post("/v1/stop").json["taken"] == "off");

  REQUIRE(steered.Post("/v1/apply", ConfigText({.collect_times = 1, .gradients = false})).json["taken"] == "armed");
  REQUIRE(steered.TrainUntil([&] { return job.Count(EventKind::kWroteBack) == 1; }));
  const Answered back = steered.Post("/v1/rollback");
  REQUIRE(back.status == 200);
  CHECK(back.json["old_plan_id"] == 1);
  CHECK(back.json["taken"] == "armed");
  CHECK(steered.File() == ConfigText({.collect_times = 100}));
  CHECK(steered.Post("/v1/rollback?plan=2").json["old_plan_id"] == 2);
  CHECK(steered.File() == ConfigText({.collect_times = 1, .gradients = false}));
  const Answered none = steered.Post("/v1/rollback?plan=77");
  CHECK(none.status == 404);
  CHECK(none.json["error"]["code"] == "no_old_config");
}

TEST_CASE("an unusable text is refused with its place before the file is touched") {
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start();
  const std::string before = steered.File();
  const Answered refused = steered.Post("/v1/apply", "{\n  \"ops\": \"norm\"\n}");
  CHECK(refused.status == 422);
  CHECK(refused.json["error"]["line"] == 2);
  CHECK(refused.json["error"]["column"] == 10);
  CHECK(refused.json["error"]["key"] == "ops");
  CHECK(steered.Post("/v1/apply", "").status == 422);
  CHECK(steered.File() == before);
  CHECK(steered.job.Count(EventKind::kRefused) == 0);
  steered.job.Save("{\"ops\": []}");
  CHECK(steered.Post("/v1/start").status == 422);  // there is no word to change
}

TEST_CASE("a hash guards a change") {
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start();
  const std::string before = steered.File();
  const std::string other(64, '0');
  for (const char* verb : {"/v1/apply", "/v1/start", "/v1/stop"}) {
    const Answered conflict = steered.Post(verb, verb == std::string("/v1/apply") ? "{}" : "", other);
    CHECK(conflict.status == 412);
    CHECK(conflict.json["error"]["expected_sha256"] == other);
    CHECK(conflict.json["error"]["found_sha256"] == base::Sha256Hex(before));
  }
  CHECK(steered.File() == before);
  CHECK(steered.Post("/v1/start", "", base::Sha256Hex(before)).status == 200);
}

TEST_CASE("a file that is gone is created by an apply, and is nothing to start") {
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start();
  std::filesystem::remove(steered.job.config_path);
  CHECK(steered.Post("/v1/start").status == 422);
  CHECK(steered.Post("/v1/apply", ConfigText(Off()), std::string(64, '0')).status == 412);
  const Answered made = steered.Post("/v1/apply", ConfigText({.collect_times = 5}));
  CHECK(made.json["method"] == "created");
  CHECK(made.json["taken"] == "armed");
}

TEST_CASE("a file that cannot be written stays, and the answer says what to do") {
  std::atomic<bool> is_read_only{false};
  HookedFiles files([&](std::string_view call) { return is_read_only && call == "faccessat" ? EROFS : 0; });
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start(files);
  is_read_only = true;
  const Answered refused = steered.Post("/v1/start");
  CHECK(refused.status == 409);
  CHECK(refused.json["error"]["code"] == "unwritable");
  CHECK(refused.json["error"]["message"].get<std::string>().find("is read-only") != std::string::npos);
  CHECK(steered.File() == ConfigText(Off()));
}

TEST_CASE("a text that is applied without the file runs until the file changes, and the history says who sent it") {
  SteeredJob steered(ConfigText(Off()));
  Job& job = steered.job;
  job.Start();
  const std::string in_file = steered.File();
  const std::string text = ConfigText({.collect_times = 1000});
  CHECK(steered.Post("/v1/apply?volatile=1", text, base::Sha256Hex(text)).status == 412);
  CHECK(steered.Post("/v1/apply?volatile=1", "{\"ops\": 7}").status == 422);
  const Answered given = steered.Post("/v1/apply?volatile=1", text, base::Sha256Hex(in_file));
  REQUIRE(given.status == 200);
  CHECK(given.json["outcome"] == "given");
  CHECK(given.json["replaced_sha256"] == base::Sha256Hex(in_file));
  CHECK(given.json["sha256"] == base::Sha256Hex(text));
  CHECK(given.json["taken"] == "armed");
  job.TrainSteps(3);
  CHECK(steered.File() == in_file);
  REQUIRE(Eventually([&] { return steered.Get("/v1/status")["drift"] == true; }));
  CHECK(steered.Get("/v1/status")["file_sha256"] == base::Sha256Hex(in_file));
  const std::string seen = job.Events(EventKind::kSeen).back().message;
  CHECK(seen.find("through the control socket: uid " + std::to_string(::geteuid())) != std::string::npos);

  REQUIRE(steered.TrainUntil([&] { return steered.Get("/v1/status")["state"] == "COLLECTING"; }));
  const Answered ended = steered.Post("/v1/apply", ConfigText(Off()) + "\n");
  REQUIRE(ended.status == 200);
  CHECK(ended.json["taken"] == "stopping");
  REQUIRE(steered.TrainUntil([&] { return steered.Get("/v1/status")["state"] == "IDLE"; }));
  CHECK(steered.Get("/v1/status")["drift"] == false);
  Json history;
  REQUIRE(Eventually([&] {
    history = steered.Get("/v1/history");
    return history.contains("lines") && history["lines"].size() >= 2;
  }));
  CHECK(history["lines"][0]["outcome"] == "applied");
  CHECK(history["lines"][0]["peer"]["uid"] == ::geteuid());
}

TEST_CASE("a job in static mode says that it does not look again") {
  SteeredJob steered(ConfigText({.collect_times = 5}));
  steered.job.options.dynamic = false;
  steered.job.Start();
  const Answered refused = steered.Post("/v1/stop");
  CHECK(refused.status == 409);
  CHECK(refused.json["error"]["code"] == "static");
  CHECK(steered.File() == ConfigText({.collect_times = 5}));
}

TEST_CASE("the same request, sent twice at once, is performed once") {
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start();
  const http::Client client = steered.client();
  std::vector<std::string> bodies(8);
  std::vector<std::thread> askers;
  for (std::string& body : bodies)
    askers.emplace_back([&body, &client] {
      const auto reply =
          client.Ask({"POST", "/v1/apply", ConfigText({.collect_times = 50}), "", "id"}, std::chrono::seconds(20));
      if (reply.ok()) body = reply.value().body;
    });
  for (std::thread& asker : askers) asker.join();
  for (const std::string& body : bodies) CHECK(body == bodies.front());
  CHECK(bodies.front().find("\"written\"") != std::string::npos);
  CHECK(steered.job.Count(EventKind::kArmed) == 1);
}

TEST_CASE("of two that apply at the same time with one hash, one is told that the file holds something else") {
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start();
  const http::Client client = steered.client();
  const std::string hash = base::Sha256Hex(steered.File());
  std::vector<int> statuses(4);
  std::vector<std::thread> askers;
  for (size_t i = 0; i < statuses.size(); ++i)
    askers.emplace_back([&, i] {
      const auto reply =
          client.Ask({"POST", "/v1/apply", ConfigText({.collect_times = static_cast<int64_t>(50 + i)}), hash, ""},
                     std::chrono::seconds(20));
      if (reply.ok()) statuses[i] = reply.value().status;
    });
  for (std::thread& asker : askers) asker.join();
  CHECK(std::count(statuses.begin(), statuses.end(), 200) == 1);
  CHECK(std::count(statuses.begin(), statuses.end(), 412) == 3);
}

TEST_CASE("a save at the same moment stands") {
  const std::string theirs = ConfigText({.collect_times = 7});
  std::atomic<int> due{0};
  std::string path;
  // The first one names the new file, the second one is the exchange.
  HookedFiles files([&](std::string_view call) {
    if (call == "renameat2" && due > 0 && --due == 0) WriteByRename(path, theirs);
    return 0;
  });
  SteeredJob steered(ConfigText(Off()));
  path = steered.job.config_path;
  steered.job.Start(files);
  due = 2;
  const Answered applied = steered.Post("/v1/apply", ConfigText({.collect_times = 9}));
  CHECK(due == 0);
  CHECK(applied.status == 409);
  CHECK(steered.File() == theirs);
}

TEST_CASE("whoever changes the config without a pause is told to wait before descriptors run out") {
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start();
  for (int i = 0; i < 300; ++i) {
    const int status = steered.Post(i % 2 == 0 ? "/v1/start" : "/v1/stop").status;
    CHECK((status == 200 || status == 503));
  }
  const std::filesystem::directory_iterator beside(std::filesystem::path(steered.job.config_path).parent_path());
  CHECK(std::distance(begin(beside), end(beside)) < 70);
}

TEST_CASE("refused texts keep nobody else from changing the config") {
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start();
  REQUIRE(steered.Post("/v1/start").status == 200);
  for (int i = 0; i < 100; ++i) {
    CHECK(steered.Post("/v1/apply", "{\"dynamic_on\": " + std::to_string(i)).status == 422);
    CHECK(steered.Post("/v1/apply", "{\"dynamic_on\": true, \"ops\": " + std::to_string(i) + "}").status == 422);
  }
  CHECK(steered.Post("/v1/stop").status == 200);
  CHECK(steered.Post("/v1/start").status == 200);
}

TEST_CASE("a stop gets through where changes without a pause keep others waiting") {
  SteeredJob steered(ConfigText(Off()));
  steered.job.Start();
  for (int i = 0; i < 300; ++i) (void)steered.Post("/v1/apply", ConfigText({.collect_times = 1 + i}));
  CHECK(steered.Post("/v1/start").status == 503);
  CHECK(steered.Post("/v1/stop").status == 200);
}

TEST_CASE(
    "in a job of ranks the control socket of any rank takes changes for rank 0's file, and all ranks apply them") {
  const TemporaryDirectory directory;
  const std::string runtime = directory / "run";
  const Variable variable("STEPWATCH_RUNTIME_DIR", runtime);
  RankedJob job(2, ConfigText(Off()));
  job.Start();
  std::map<int, http::Client> sockets;
  REQUIRE(Eventually([&] {
    for (const control_socket::FoundJob& found : control_socket::FindJobs({.directories = {runtime}}))
      sockets.emplace(json::Parse(found.status).value()["rank"].get<int>(), http::Client(found.path));
    return sockets.size() == 2;
  }));
  job.Run(milliseconds(1));
  for (const int rank : {1, 0}) {
    const std::string text = ConfigText({.collect_times = 1000 + rank});
    const auto applied = sockets.at(rank).Ask("POST", "/v1/apply", text);
    REQUIRE(applied.ok());
    CHECK(applied.value().status == 200);
    CHECK(applied.value().body.find("\"written\"") != std::string::npos);
    CHECK(Contents(job.ranks[0]->config_path) == text);
    CHECK(job.WaitForAll(EventKind::kApplied, rank == 1 ? 1 : 2));
  }
  job.Close();
}

TEST_CASE("a monitor that closes gives whoever waits an answer or an end") {
  SteeredJob steered(ConfigText({.collect_times = 500}));
  steered.job.Start();
  const http::Client client = steered.client();
  std::atomic<bool> ends{false};
  std::vector<std::thread> askers;
  for (int i = 0; i < 3; ++i)
    askers.emplace_back([&ends, &client, i] {
      while (!ends && client.Ask("POST", i == 0 ? "/v1/stop" : "/v1/start").ok()) {
      }
    });
  steered.job.TrainSteps(5);
  steered.job.Close();
  ends = true;
  for (std::thread& asker : askers) asker.join();
}

}  // namespace
}  // namespace stepwatch::testing
