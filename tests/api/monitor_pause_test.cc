// Pausing, resuming and rotating a real monitor through its control socket.
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/json/json.h"
#include "stepwatch/stores.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

struct Told {
  int status = 0;
  Json json;
};

// Trains while somebody asks: what is asked is done between two steps.
class Trainer {
 public:
  explicit Trainer(Job* job) : job_(*job) {}
  Told Ask(const ControlSockets& sockets, const std::string& target) {
    std::atomic<bool> is_told{false};
    Told told;
    std::thread asker([&, client = sockets.client()] {
      const auto reply = client.Ask("POST", target);
      if (reply.ok()) told = {reply.value().status, json::Parse(reply.value().body).value()};
      is_told = true;
    });
    while (!is_told) {
      job_.TrainStep();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    asker.join();
    return told;
  }

 private:
  Job& job_;
};

TEST_CASE("a paused run collects nothing, says so, and collects what is left of its window when it goes on") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 100000}));
  job.Start();
  Trainer trainer(&job);
  job.TrainSteps(3);
  Told told = trainer.Ask(sockets, "/v1/pause");
  CHECK(told.status == 200);
  CHECK(told.json["outcome"] == "paused");
  CHECK(told.json["plan_id"] == 1);
  CHECK(told.json["ranks"] == "all");
  CHECK(job.monitor->GetStatus().paused);
  const int64_t collected = job.monitor->GetStatus().collected;
  job.TrainSteps(20);
  CHECK(job.monitor->GetStatus().collected == collected);
  const Json status = sockets.Status();
  CHECK(status["state"] == "COLLECTING");
  CHECK(status["paused"] == true);
  CHECK(status["collected"] == collected);
  CHECK(sockets.client().Get("/metrics").value().body.find("stepwatch_paused 1\n") != std::string::npos);
  CHECK(trainer.Ask(sockets, "/v1/pause").json["outcome"] == "unchanged");
  told = trainer.Ask(sockets, "/v1/resume");
  CHECK(told.json["outcome"] == "resumed");
  CHECK(told.json["paused"] == false);
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().collected > collected);
  REQUIRE(job.WaitFor(EventKind::kResumed));
  const Event paused = job.Events(EventKind::kPaused).at(0), resumed = job.Events(EventKind::kResumed).at(0);
  CHECK(paused.plan_id == 1);
  job.Close();
  Steps expected;
  for (int64_t step = 1; step < job.Steps("grad_reduced").back() + 1; ++step)
    if (step < paused.step || step >= resumed.step) expected.push_back(step);
  CHECK(job.Steps("grad_reduced") == expected);
}

TEST_CASE("an edit ends a pause, a refused one does not, and nothing is paused that does not run") {
  const ControlSockets sockets;
  Job job(ConfigText(Off()));
  job.Start();
  Trainer trainer(&job);
  CHECK(trainer.Ask(sockets, "/v1/pause").json["error"]["code"] == "not_collecting");
  REQUIRE(job.Edit(ConfigText({.collect_times = 100000})) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  REQUIRE(trainer.Ask(sockets, "/v1/pause").status == 200);
  REQUIRE(job.Edit("{\"ops\": 3}") == RefreshOutcome::kRefused);
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().paused);
  REQUIRE(job.Edit(ConfigText({.collect_times = 90000, .gradients = false})) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  CHECK_FALSE(job.monitor->GetStatus().paused);
  CHECK(job.monitor->GetStatus().collecting_step);
  REQUIRE(trainer.Ask(sockets, "/v1/pause").status == 200);
  REQUIRE(job.Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  job.TrainStep();
  CHECK_FALSE(job.monitor->GetStatus().paused);
  CHECK(trainer.Ask(sockets, "/v1/resume").json["error"]["code"] == "not_collecting");
}

TEST_CASE("a job that stands still in a step is told what will happen at its end") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 100000}));
  job.Start();
  job.TrainSteps(2);
  const auto reply = sockets.client().Ask("POST", "/v1/pause");
  CHECK(reply.value().status == 202);
  CHECK(json::Parse(reply.value().body).value()["outcome"] == "under_way");
  CHECK_FALSE(job.monitor->GetStatus().paused);
  CHECK(sockets.client().Ask("POST", "/v1/rotate").value().status == 202);
  CHECK(sockets.client().Ask("POST", "/v1/rotate").value().status == 409);
  job.TrainStep();
  CHECK(job.monitor->GetStatus().paused);
  CHECK(job.WaitFor(EventKind::kRotated));
}

TEST_CASE("a rotation closes the files, names them in answer and manifest, and loses no row") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 100000}, ", \"step_count_per_record\": 1000000"));
  job.Start();
  Trainer trainer(&job);
  job.TrainSteps(3);
  std::map<std::string, std::string> closed;
  for (int64_t segment = 2; segment < 6; ++segment) {
    const Told told = trainer.Ask(sockets, "/v1/rotate");
    REQUIRE(told.status == 200);
    CHECK(told.json["segment"] == segment);
    REQUIRE(told.json["files"].size() == 2);  // grad_unreduced and grad_reduced
    const std::string last_step = std::to_string(told.json["last_step"].get<int64_t>());
    for (const Json& file : told.json["files"]) {
      const std::string path = told.json["directory"].get<std::string>() + "/" + file.get<std::string>();
      REQUIRE(std::filesystem::exists(path));
      CHECK(closed.emplace(path, Contents(path)).second);
      CHECK(ReadTable(path).back().at(2) == last_step);
    }
    const Json manifest = Json::parse(Contents(told.json["directory"].get<std::string>() + "/manifest.json"));
    REQUIRE(manifest["segments"].size() == static_cast<size_t>(segment - 1));
    CHECK(manifest["segments"].back()["files"] == told.json["files"]);
    CHECK(sockets.Says("segment", segment));
  }
  job.TrainSteps(3);
  job.Close();  // and the account: every row that the ledger has is in a file
  for (const auto& [path, text] : closed) CHECK(Contents(path) == text);
  CHECK(job.CsvFiles().size() == 10);
  const Steps steps = job.Steps("grad_reduced");
  CHECK(steps.size() == static_cast<size_t>(steps.back()));
}

TEST_CASE("a rotation that the plan's end overtakes is done with it, and the next one works") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 100000}));
  job.Start();
  job.TrainSteps(2);
  Trainer trainer(&job);
  CHECK(sockets.client().Ask("POST", "/v1/rotate").value().status == 202);
  job.Save(ConfigText(Off()));
  REQUIRE(job.Refresh() == RefreshOutcome::kStopping);
  job.TrainSteps(2);
  REQUIRE(job.WaitFor(EventKind::kDrained));
  CHECK(trainer.Ask(sockets, "/v1/rotate").json["error"]["code"] == "not_collecting");
  REQUIRE(job.Edit(ConfigText({.collect_times = 100000})) == RefreshOutcome::kArmed);
  job.TrainSteps(2);
  CHECK(trainer.Ask(sockets, "/v1/rotate").status == 200);
}

TEST_CASE("a run in static mode pauses and rotates as well") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 100000}));
  job.options.dynamic = false;
  job.Start();
  Trainer trainer(&job);
  job.TrainSteps(2);
  CHECK(trainer.Ask(sockets, "/v1/pause").status == 200);
  CHECK(trainer.Ask(sockets, "/v1/rotate").status == 200);
  CHECK(trainer.Ask(sockets, "/v1/resume").status == 200);
}

TEST_CASE("a model that grows in a pause stays paused") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 100000}));
  job.Start();
  Trainer trainer(&job);
  job.TrainSteps(2);
  REQUIRE(trainer.Ask(sockets, "/v1/pause").status == 200);
  REQUIRE(job.Attach().ok());
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().plan_id == 2);
  CHECK(job.monitor->GetStatus().paused);
  CHECK(trainer.Ask(sockets, "/v1/resume").json["plan_id"] == 2);
  job.TrainSteps(2);
  CHECK(job.monitor->GetStatus().collecting_step);
}

TEST_CASE("a rank of a job with a store is not paused alone") {
  const ControlSockets sockets;
  Job job(ConfigText({.collect_times = 100000}));
  job.options.dynamic = false;
  job.options.world_size = 2;
  job.options.store = MakeMemoryStore();
  job.Start();
  job.TrainSteps(2);
  const auto reply = sockets.client().Ask("POST", "/v1/pause");
  CHECK(reply.value().status == 409);
  CHECK(json::Parse(reply.value().body).value()["error"]["code"] == "ranks");
  CHECK_FALSE(job.monitor->GetStatus().paused);
}

}  // namespace
}  // namespace stepwatch::testing
