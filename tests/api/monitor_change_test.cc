// Verbs that change the config through the control socket of a real monitor: the file is written, and the monitor takes
// it up.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "src/base/sha256.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"
#include "tests/eventually.h"
#include "tests/hooked_files.h"

namespace stepwatch::testing {
namespace {

// A job that is changed through its control socket.
struct SteeredJob {
  explicit SteeredJob(const std::string& config = ConfigText(Off())) : job(config) {}

  JsonReply Post(const std::string& target, const std::string& body = "", const std::string& if_match = "") {
    return sockets.Post(target, body, if_match);
  }
  std::string File() const { return Contents(job.config_path); }
  // Waits until it has this many lines.
  Json History(size_t lines) const {
    Json history;
    REQUIRE(Eventually([&] {
      const JsonReply reply = Send(sockets.client(), {"GET", "/v1/history", "", "", ""});
      history = reply.json;
      return reply.status == 200 && history["lines"].size() == lines;
    }));
    return history;
  }

  const ControlSockets sockets;
  Job job;
};

TEST_CASE(
    "a text that is applied through the control socket is in the file and armed, and the history names the sender") {
  SteeredJob steered;
  Job& job = steered.job;
  job.Start();
  const std::string text = ConfigText({.collect_times = 2});
  const JsonReply applied = steered.Post("/v1/apply", text);
  REQUIRE(applied.status == 200);
  CHECK(applied.json["outcome"] == "written");
  CHECK(applied.json["config"] == job.config_path);
  CHECK(applied.json["replaced_sha256"] == base::Sha256Hex(ConfigText(Off())));
  CHECK(applied.json["sha256"] == base::Sha256Hex(text));
  CHECK(applied.json["taken"] == "armed");
  CHECK(applied.json["plan_id"] == 1);
  CHECK(applied.json["at_step"] == job.monitor->step() + 1);
  CHECK(steered.File() == text);
  CHECK(steered.sockets.Status()["armed"]["plan_id"] == 1);
  REQUIRE(job.TrainUntil([&] { return job.Count(EventKind::kWroteBack) == 1; }));

  const std::vector<Event> seen = job.Events(EventKind::kSeen);
  CHECK(Has(seen.back().message,
            "through the control socket: uid " + std::to_string(::geteuid()) + ", pid " + std::to_string(::getpid())));
  const Json history = steered.History(2);
  CHECK(history["lines"][0]["outcome"] == "applied");
  CHECK(history["lines"][1]["outcome"] == "finished");
  CHECK(history["lines"][0]["peer"]["uid"] == ::geteuid());
  CHECK(history["lines"][0]["peer"]["pid"] == ::getpid());
  CHECK(history["lines"][0]["owner_uid"] == ::geteuid());
  CHECK(steered.sockets.client().Get("/v1/configs/" + base::Sha256Hex(text)).value().body == text);

  REQUIRE(job.Edit(ConfigText({.collect_times = 3})) == RefreshOutcome::kArmed);
  REQUIRE(job.TrainUntil([&] { return job.Count(EventKind::kWroteBack) == 2; }));
  CHECK_FALSE(steered.History(4)["lines"][2].contains("peer"));  // saved in the file
}

TEST_CASE("a history with a line of 50 MB is read, and a rollback finds its other lines") {
  const std::string first = ConfigText({.collect_times = 2});
  SteeredJob steered(first);
  Job& job = steered.job;
  job.Start();
  REQUIRE(job.TrainUntil([&] { return job.Count(EventKind::kWroteBack) == 1; }));
  REQUIRE(job.Edit(ConfigText({.collect_times = 100})) == RefreshOutcome::kArmed);
  REQUIRE(job.TrainUntil([&] { return job.Count(EventKind::kApplied) == 2; }));
  const std::string path = steered.History(3)["directory"].get<std::string>() + "/stepwatch_history.jsonl";
  const size_t bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, bytes + (size_t{50} << 20));
  const Json history = steered.sockets.Get("/v1/history?limit=1");
  REQUIRE(history["lines"].size() == 1);
  CHECK(history["lines_in_all"] == 3);
  CHECK(history["notes"].size() == 1);
  const JsonReply back = steered.Post("/v1/rollback");
  CHECK(back.status == 200);
  CHECK(steered.File() == first);
}

TEST_CASE("start, stop and rollback change the file, and the plan follows") {
  SteeredJob steered(ConfigText({.dynamic_on = false, .collect_times = 100}));
  Job& job = steered.job;
  job.Start();
  const std::string off = steered.File();
  JsonReply started = steered.Post("/v1/start");
  REQUIRE(started.status == 200);
  CHECK(started.json["taken"] == "armed");
  CHECK(steered.File() == ConfigText({.collect_times = 100}));
  CHECK(steered.Post("/v1/start").json["outcome"] == "unchanged");
  REQUIRE(job.TrainUntil([&] { return job.Count(EventKind::kApplied) == 1; }));
  CHECK(steered.Post("/v1/start").json["taken"] == "running");
  const JsonReply stopped = steered.Post("/v1/stop");
  CHECK(stopped.json["taken"] == "stopping");
  CHECK(stopped.json["plan_id"] == 1);
  CHECK(steered.File() == off);
  REQUIRE(job.TrainUntil([&] { return job.Count(EventKind::kDrained) == 1; }));
  CHECK(steered.Post("/v1/stop").json["taken"] == "off");

  REQUIRE(steered.Post("/v1/apply", ConfigText({.collect_times = 1, .gradients = false})).json["taken"] == "armed");
  REQUIRE(job.TrainUntil([&] { return job.Count(EventKind::kWroteBack) == 1; }));
  const JsonReply back = steered.Post("/v1/rollback");
  REQUIRE(back.status == 200);
  CHECK(back.json["old_plan_id"] == 1);
  CHECK(back.json["taken"] == "armed");
  CHECK(steered.File() == ConfigText({.collect_times = 100}));
  CHECK(steered.Post("/v1/rollback?plan=2").json["old_plan_id"] == 2);
  CHECK(steered.File() == ConfigText({.collect_times = 1, .gradients = false}));
  const JsonReply none = steered.Post("/v1/rollback?plan=77");
  CHECK(none.status == 404);
  CHECK(none.json["error"]["code"] == "no_old_config");
}

TEST_CASE("an unusable text, and a change for another text of the file, are refused before the file is touched") {
  SteeredJob steered;
  steered.job.Start();
  const std::string before = steered.File(), other(64, '0');
  const JsonReply refused = steered.Post("/v1/apply", "{\n  \"ops\": \"norm\"\n}");
  CHECK(refused.status == 422);
  CHECK(refused.json["error"]["line"] == 2);
  CHECK(refused.json["error"]["column"] == 10);
  CHECK(refused.json["error"]["key"] == "ops");
  CHECK(steered.Post("/v1/apply", "").status == 422);
  for (const std::string verb : {"/v1/apply", "/v1/start", "/v1/stop"}) {
    const JsonReply conflict = steered.Post(verb, verb == "/v1/apply" ? "{}" : "", other);
    CHECK(conflict.status == 412);
    CHECK(conflict.json["error"]["expected_sha256"] == other);
    CHECK(conflict.json["error"]["found_sha256"] == base::Sha256Hex(before));
  }
  CHECK(steered.File() == before);
  CHECK(steered.job.Count(EventKind::kRefused) == 0);
  CHECK(steered.Post("/v1/start", "", base::Sha256Hex(before)).status == 200);
  steered.job.Save("{\"ops\": []}");
  CHECK(steered.Post("/v1/start").status == 422);  // there is no word to change
}

TEST_CASE("a file that is gone is created by an apply, and is nothing to start") {
  SteeredJob steered;
  steered.job.Start();
  std::filesystem::remove(steered.job.config_path);
  CHECK(steered.Post("/v1/start").status == 422);
  CHECK(steered.Post("/v1/apply", ConfigText(Off()), std::string(64, '0')).status == 412);
  const JsonReply made = steered.Post("/v1/apply", ConfigText({.collect_times = 5}));
  CHECK(made.json["method"] == "created");
  CHECK(made.json["taken"] == "armed");
}

TEST_CASE("a file that cannot be written stays, and the answer gives the reason") {
  std::atomic<bool> is_read_only{false};
  HookedFiles files([&](std::string_view call) { return is_read_only && call == "faccessat" ? EROFS : 0; });
  SteeredJob steered;
  steered.job.Start(files);
  is_read_only = true;
  const JsonReply refused = steered.Post("/v1/start");
  CHECK(refused.status == 409);
  CHECK(refused.json["error"]["code"] == "unwritable");
  CHECK(Has(refused.json["error"]["message"].get<std::string>(), "is read-only"));
  CHECK(steered.File() == ConfigText(Off()));
}

TEST_CASE("a text that is applied without the file runs until the file changes, and the history names the sender") {
  SteeredJob steered;
  Job& job = steered.job;
  job.Start();
  const std::string in_file = steered.File();
  const std::string text = ConfigText({.collect_times = 1000});
  CHECK(steered.Post("/v1/apply?volatile=1", text, base::Sha256Hex(text)).status == 412);
  CHECK(steered.Post("/v1/apply?volatile=1", "{\"ops\": 7}").status == 422);
  const JsonReply given = steered.Post("/v1/apply?volatile=1", text, base::Sha256Hex(in_file));
  REQUIRE(given.status == 200);
  CHECK(given.json["outcome"] == "given");
  CHECK(given.json["replaced_sha256"] == base::Sha256Hex(in_file));
  CHECK(given.json["sha256"] == base::Sha256Hex(text));
  CHECK(given.json["taken"] == "armed");
  job.TrainSteps(3);
  CHECK(steered.File() == in_file);
  CHECK(steered.sockets.HasStatus("drift", true));
  CHECK(steered.sockets.Status()["file_sha256"] == base::Sha256Hex(in_file));
  const std::string seen = job.Events(EventKind::kSeen).back().message;
  CHECK(Has(seen, "through the control socket: uid " + std::to_string(::geteuid())));

  REQUIRE(job.TrainUntil([&] { return steered.sockets.Status()["state"] == "COLLECTING"; }));
  const JsonReply ended = steered.Post("/v1/apply", ConfigText(Off()) + "\n");
  REQUIRE(ended.status == 200);
  CHECK(ended.json["taken"] == "stopping");
  REQUIRE(job.TrainUntil([&] { return steered.sockets.Status()["state"] == "IDLE"; }));
  CHECK(steered.sockets.Status()["drift"] == false);
  const Json history = steered.sockets.Get("/v1/history");
  CHECK(history["lines"][0]["outcome"] == "applied");
  CHECK(history["lines"][0]["peer"]["uid"] == ::geteuid());
}

TEST_CASE("a job in static mode refuses a change") {
  SteeredJob steered(ConfigText({.collect_times = 5}));
  steered.job.options.dynamic = false;
  steered.job.Start();
  const JsonReply refused = steered.Post("/v1/stop");
  CHECK(refused.status == 409);
  CHECK(refused.json["error"]["code"] == "static");
  CHECK(steered.File() == ConfigText({.collect_times = 5}));
}

TEST_CASE("of several that apply at the same time with one hash, one changes the file and the others are refused") {
  SteeredJob steered;
  steered.job.Start();
  const http::Client client = steered.sockets.client();
  const std::string hash = base::Sha256Hex(steered.File());
  std::vector<std::future<Result<http::Reply>>> replies;
  for (int64_t i = 0; i < 4; ++i)
    replies.push_back(std::async(std::launch::async, [&, i] {
      return client.Ask({"POST", "/v1/apply", ConfigText({.collect_times = 50 + i}), hash, ""},
                        std::chrono::seconds(20));
    }));
  std::multiset<int> statuses;
  for (auto& reply : replies) statuses.insert(reply.get().value().status);
  CHECK(statuses == std::multiset<int>{200, 412, 412, 412});
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
  SteeredJob steered;
  path = steered.job.config_path;
  steered.job.Start(files);
  due = 2;
  const JsonReply applied = steered.Post("/v1/apply", ConfigText({.collect_times = 9}));
  CHECK(due == 0);
  CHECK(applied.status == 409);
  CHECK(steered.File() == theirs);
}

TEST_CASE("changes without a pause are rejected as busy before descriptors run out, and a stop gets through") {
  SteeredJob steered;
  steered.job.Start();
  // Each change counts for five seconds, so the 65th waits until the first one is over; a slow machine takes longer for
  // 64 changes, and rejects none.
  constexpr size_t kChangesMax = 64;
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> begun;
  int rejected = 0;
  for (int i = 0; i < 300; ++i) {
    const auto at = Clock::now();
    const int status = steered.Post("/v1/apply", ConfigText({.collect_times = 1 + i})).status;
    CHECK((status == 200 || status == 503));
    if (status != 200) {
      ++rejected;
      continue;
    }
    begun.push_back(at);
    if (begun.size() > kChangesMax)
      CHECK(Clock::now() - begun[begun.size() - 1 - kChangesMax] >= std::chrono::seconds(5));
  }
  if (rejected == 0) CHECK(Clock::now() - begun.front() >= std::chrono::seconds(5));
  CHECK(steered.Post("/v1/stop").status == 200);
  const std::filesystem::directory_iterator beside(std::filesystem::path(steered.job.config_path).parent_path());
  CHECK(std::distance(begin(beside), end(beside)) < 70);
}

TEST_CASE("refused texts do not keep others from changing the config") {
  SteeredJob steered;
  steered.job.Start();
  REQUIRE(steered.Post("/v1/start").status == 200);
  for (int i = 0; i < 100; ++i) {
    CHECK(steered.Post("/v1/apply", "{\"dynamic_on\": " + std::to_string(i)).status == 422);
    CHECK(steered.Post("/v1/apply", "{\"dynamic_on\": true, \"ops\": " + std::to_string(i) + "}").status == 422);
  }
  CHECK(steered.Post("/v1/stop").status == 200);
  CHECK(steered.Post("/v1/start").status == 200);
}

TEST_CASE("a monitor that closes answers pending requests or ends their connections") {
  SteeredJob steered(ConfigText({.collect_times = 500}));
  steered.job.Start();
  std::atomic<bool> ends{false};
  std::vector<std::thread> askers;
  for (const char* target : {"/v1/stop", "/v1/start", "/v1/start"})
    askers.emplace_back([&ends, client = steered.sockets.client(), target] {
      while (!ends && client.Ask("POST", target).ok()) {
      }
    });
  steered.job.TrainSteps(5);
  steered.job.Close();
  ends = true;
  for (std::thread& asker : askers) asker.join();
}

}  // namespace
}  // namespace stepwatch::testing
