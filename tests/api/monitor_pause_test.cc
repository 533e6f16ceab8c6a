// Pausing, resuming and rotating a real monitor through its control socket.
#include <chrono>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "stepwatch/stores.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

const std::string kLong = ConfigText({.collect_times = 100000}, ", \"step_count_per_record\": 1000000");

// Trains until the request is answered: it is performed between two steps.
JsonReply AskTraining(const ControlSockets& sockets, Job* job, const std::string& target) {
  std::future<Result<http::Reply>> answer =
      std::async(std::launch::async, [client = sockets.client(), target] { return client.Ask("POST", target); });
  while (answer.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) job->TrainStep();
  const Result<http::Reply> reply = answer.get();
  REQUIRE(reply.status().ToString() == "ok");
  return {reply.value().status, json::Parse(reply.value().body).value()};
}

TEST_CASE("a paused run collects nothing, also in static mode and after its model has grown, until it resumes") {
  const bool is_dynamic = GENERATE(true, false);
  const ControlSockets sockets;
  Job job(kLong);
  job.options.dynamic = is_dynamic;
  job.Start();
  job.TrainSteps(3);
  const JsonReply paused = AskTraining(sockets, &job, "/v1/pause");
  CHECK(paused.status == 200);
  CHECK(paused.json["outcome"] == "paused");
  CHECK(paused.json["plan_id"] == 1);
  CHECK(paused.json["ranks"] == "all");
  const int64_t collected = job.monitor->GetStatus().collected;
  job.TrainSteps(20);
  CHECK(job.monitor->GetStatus().collected == collected);
  const Json status = sockets.Status();
  CHECK(status["state"] == "COLLECTING");
  CHECK(status["paused"] == true);
  CHECK(status["collected"] == collected);
  CHECK(sockets.HasMetric("paused 1"));
  REQUIRE(job.Attach().ok());
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().plan_id == 2);
  CHECK(job.monitor->GetStatus().paused);
  CHECK(AskTraining(sockets, &job, "/v1/pause").json["outcome"] == "unchanged");
  const JsonReply resumed = AskTraining(sockets, &job, "/v1/resume");
  CHECK(resumed.json["outcome"] == "resumed");
  CHECK(resumed.json["plan_id"] == 2);
  job.TrainSteps(2);
  REQUIRE(job.WaitFor(EventKind::kResumed));
  const Event begin = job.Events(EventKind::kPaused).at(0), end = job.Events(EventKind::kResumed).at(0);
  CHECK(begin.plan_id == 1);
  job.Close();
  Steps expected;
  for (int64_t step = is_dynamic ? 1 : 0; step <= job.Steps("grad_reduced").back(); ++step)
    if (step < begin.step || step >= end.step) expected.push_back(step);
  CHECK(job.Steps("grad_reduced") == expected);
}

TEST_CASE("a request to a job that stands still in a step is carried out at its end") {
  const ControlSockets sockets;
  StartedJob job(kLong);
  job.TrainSteps(2);
  const JsonReply paused = sockets.Post("/v1/pause");
  CHECK(paused.status == 202);
  CHECK(paused.json["outcome"] == "under_way");
  CHECK_FALSE(job.monitor->GetStatus().paused);
  CHECK(sockets.Post("/v1/rotate").status == 202);
  CHECK(sockets.Post("/v1/rotate").status == 409);
  job.TrainStep();
  CHECK(job.monitor->GetStatus().paused);
  CHECK(job.WaitFor(EventKind::kRotated));
}

TEST_CASE("a rotation closes the files, names them in answer and manifest, and loses no row") {
  const ControlSockets sockets;
  StartedJob job(kLong);
  job.TrainSteps(3);
  std::map<std::string, std::string> closed;
  for (int64_t segment = 2; segment < 6; ++segment) {
    const JsonReply rotated = AskTraining(sockets, &job, "/v1/rotate");
    REQUIRE(rotated.status == 200);
    CHECK(rotated.json["segment"] == segment);
    REQUIRE(rotated.json["files"].size() == 2);  // grad_unreduced and grad_reduced
    const std::string last_step = std::to_string(rotated.json["last_step"].get<int64_t>());
    const std::string directory = rotated.json["directory"];
    for (const Json& file : rotated.json["files"]) {
      const std::string path = directory + "/" + file.get<std::string>();
      REQUIRE(std::filesystem::exists(path));
      CHECK(closed.emplace(path, Contents(path)).second);
      CHECK(ReadTable(path).back().at(2) == last_step);
    }
    const Json manifest = Json::parse(Contents(directory + "/manifest.json"));
    REQUIRE(manifest["segments"].size() == static_cast<size_t>(segment - 1));
    CHECK(manifest["segments"].back()["files"] == rotated.json["files"]);
    CHECK(sockets.HasStatus("segment", segment));
  }
  job.TrainSteps(3);
  job.Close();  // checks that every row of the ledger is in a file
  for (const auto& [path, text] : closed) CHECK(Contents(path) == text);
  CHECK(job.CsvFiles().size() == 10);
  const Steps steps = job.Steps("grad_reduced");
  CHECK(steps.size() == static_cast<size_t>(steps.back()));
}

TEST_CASE("the end of the plan completes a pending rotation, and the next one works") {
  const ControlSockets sockets;
  StartedJob job(kLong);
  job.TrainSteps(2);
  CHECK(sockets.Post("/v1/rotate").status == 202);
  REQUIRE(job.Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  job.TrainSteps(2);
  REQUIRE(job.WaitFor(EventKind::kDrained));
  CHECK(AskTraining(sockets, &job, "/v1/rotate").json["error"]["code"] == "not_collecting");
  REQUIRE(job.Edit(kLong) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  CHECK(AskTraining(sockets, &job, "/v1/rotate").status == 200);
}

TEST_CASE("a rank of a job with a store is not paused alone") {
  const ControlSockets sockets;
  Job job(kLong);
  job.options.dynamic = false;
  job.options.world_size = 2;
  job.options.store = MakeMemoryStore();
  job.Start();
  job.TrainSteps(2);
  const JsonReply reply = sockets.Post("/v1/pause");
  CHECK(reply.status == 409);
  CHECK(reply.json["error"]["code"] == "ranks");
  CHECK_FALSE(job.monitor->GetStatus().paused);
}

}  // namespace
}  // namespace stepwatch::testing
