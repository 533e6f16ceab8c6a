// Jobs of several ranks: all of them pause, go on, and begin an edit at one step.
#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "tests/api/control_sockets.h"
#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

// Repeats the request, with one id, until the control socket is not busy: it is performed once.
JsonReply Ask(const ControlSockets& sockets, size_t rank, const std::string& target, const std::string& body = "") {
  static std::atomic<int> asked{0};
  const http::ClientRequest request{"POST", target, body, "", "ask-" + std::to_string(++asked)};
  const http::Client client = sockets.client(rank);
  JsonReply answer;
  REQUIRE(Eventually([&] {
    const auto reply = client.Ask(request, std::chrono::seconds(20));
    if (!reply.ok() || reply.value().status == 503) return false;
    answer = {reply.value().status, json::Parse(reply.value().body).value()};
    return true;
  }));
  return answer;
}

// A pause, or its end. On a busy machine the ranks take longer than a control socket waits for them.
JsonReply AskInTime(const ControlSockets& sockets, size_t rank, const std::string& target) {
  JsonReply reply = Ask(sockets, rank, target);
  const std::string outcome = reply.json["outcome"];
  CHECK((reply.status == 200 ? outcome == target.substr(4) + "d" : reply.status == 202 && outcome == "under_way"));
  return reply;
}

// The step of the answer, or, if it came too early, that of the event.
int64_t StepOf(const JsonReply& reply, const Event& event) {
  return reply.status == 200 ? reply.json["at_step"].get<int64_t>() : event.step;
}

std::string Long(int64_t collect_times = 1000000, const std::string& more = "") {
  return ConfigText({.collect_times = collect_times}, more);
}

// A job of ranks that collects, and their control sockets.
struct MovingJob {
  explicit MovingJob(int ranks, const std::string& config = Long(), milliseconds step_time = milliseconds(2))
      : job(ranks, config) {
    job.keeps_up = true;  // no row is dropped, however slow the machine is
    job.Start();
    job.Run(step_time);
    REQUIRE(job.WaitForAll(EventKind::kApplied));
  }

  RankedJob job;
  const ControlSockets sockets;
};

bool AllArePaused(RankedJob& job, bool paused) {
  return Eventually([&] {
    return std::all_of(job.ranks.begin(), job.ranks.end(),
                       [&](auto& rank) { return rank->monitor->GetStatus().paused == paused; });
  });
}

void CheckAllHave(RankedJob& job, const Steps& steps) {
  for (auto& rank : job.ranks) {
    INFO("rank " << rank->options.rank);
    CHECK(rank->Steps("grad_reduced") == steps);
  }
}

TEST_CASE(
    "a job of ranks is paused and resumed at any rank's control socket: on all at one step, and the window is kept",
    "[slow]") {
  MovingJob moving(3, Long(400), milliseconds(2));
  RankedJob& job = moving.job;
  const ControlSockets& sockets = moving.sockets;
  REQUIRE(sockets.AllAnswer(2));
  for (size_t round = 0; round < 3; ++round) {
    const JsonReply paused = AskInTime(sockets, round, "/v1/pause");
    CHECK(paused.json["ranks"] == "all");
    CHECK(paused.json["plan_id"] == 1);
    REQUIRE(AllArePaused(job, true));
    CHECK(Ask(sockets, 2 - round, "/v1/pause").json["outcome"] == "unchanged");
    const JsonReply resumed = AskInTime(sockets, 2 - round, "/v1/resume");
    REQUIRE(AllArePaused(job, false));
    REQUIRE(job.WaitForAll(EventKind::kResumed, round + 1));
    const int64_t from = StepOf(paused, job[0].Events(EventKind::kPaused).at(round));
    const int64_t to = StepOf(resumed, job[0].Events(EventKind::kResumed).at(round));
    CHECK(from < to);
    for (auto& rank : job.ranks) {
      CHECK(rank->Events(EventKind::kPaused).at(round).step == from);
      CHECK(rank->Events(EventKind::kResumed).at(round).step == to);
    }
  }
  REQUIRE(job.Settle(1));
  job.Close();
  Steps expected;
  const auto paused = job[0].Events(EventKind::kPaused), resumed = job[0].Events(EventKind::kResumed);
  for (int64_t step = job[0].Events(EventKind::kApplied)[0].step; expected.size() < 400; ++step) {
    bool is_paused = false;
    for (size_t i = 0; i < 3; ++i) is_paused = is_paused || (step >= paused[i].step && step < resumed[i].step);
    if (!is_paused) expected.push_back(step);
  }
  CheckAllHave(job, expected);
}

TEST_CASE(
    "an edit ends a pause of all ranks at its step, a refused one and a stop that comes with it leave them equal") {
  MovingJob moving(2);
  RankedJob& job = moving.job;
  const ControlSockets& sockets = moving.sockets;
  AskInTime(sockets, 0, "/v1/pause");
  REQUIRE(AllArePaused(job, true));
  CHECK(job[0].Edit("{\"ops\": 3}") == RefreshOutcome::kRefused);
  CHECK(job[1].monitor->GetStatus().paused);
  CHECK(job[0].Edit(Long(100000)) == RefreshOutcome::kArmed);
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  REQUIRE(AllArePaused(job, false));
  AskInTime(sockets, 1, "/v1/pause");
  CHECK(job[0].Edit(ConfigText(Off())) == RefreshOutcome::kStopping);
  REQUIRE(job.WaitForAll(EventKind::kDrained, 2));
  CHECK(Ask(sockets, 1, "/v1/resume").json["error"]["code"] == "not_collecting");
  job.Close();
  CheckAllHave(job, job[0].Steps("grad_reduced"));
}

TEST_CASE("a pause that the ranks have not decided on is under way, gives way to its end, and to an edit", "[slow]") {
  MovingJob moving(2);
  RankedJob& job = moving.job;
  const ControlSockets& sockets = moving.sockets;
  for (const bool edits : {false, true}) {
    INFO("edits " << edits);
    job.stores[1]->Hold();
    CHECK(Ask(sockets, 0, "/v1/pause").json["outcome"] == "under_way");
    CHECK(Ask(sockets, 0, "/v1/pause").json["outcome"] == "under_way");
    if (edits) {
      job[0].Save(Long(100000));
      CHECK(job[0].monitor->Refresh(milliseconds(200)) == RefreshOutcome::kTimedOut);
      CHECK(Ask(sockets, 0, "/v1/resume").json["outcome"] == "unchanged");
      CHECK(Ask(sockets, 0, "/v1/pause").json["error"]["code"] == "ending");
    } else {
      CHECK(Ask(sockets, 0, "/v1/resume").json["outcome"] == "under_way");
    }
    job.stores[1]->LetGo();
    if (edits) REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
    REQUIRE(Eventually([&] { return Ask(sockets, 0, "/v1/resume").json["outcome"] == "unchanged"; }));
  }
  CHECK(job[0].Count(EventKind::kPaused) == 0);
  AskInTime(sockets, 0, "/v1/pause");
  REQUIRE(job.WaitForAll(EventKind::kPaused));
  job.Close();
  CheckAllHave(job, job[0].Steps("grad_reduced"));
}

TEST_CASE("ranks that agree without votes pause together as well, if the message arrives in time") {
  for (const char* mode : {"besteffort", "local"}) {
    INFO(mode);
    const ControlSockets sockets;
    StartedRankedJob job(2, Long(1000000, std::string(R"(, "stepwatch": {"coordination": ")") + mode + "\"}"));
    job.Run(milliseconds(10));
    REQUIRE(job.WaitForAll(EventKind::kApplied));
    CHECK(Ask(sockets, 0, "/v1/pause").json["ranks"] == "all");
    REQUIRE(job.WaitForAll(EventKind::kPaused));
    CHECK(Ask(sockets, 1, "/v1/resume").json["ranks"] == "all");
    REQUIRE(job.WaitForAll(EventKind::kResumed));
    job.Close();
  }
}

TEST_CASE(
    "an edit for a step begins there on all ranks, at any rank's control socket, and what runs goes on until then",
    "[slow]") {
  MovingJob moving(3, Long(), milliseconds(5));
  RankedJob& job = moving.job;
  const ControlSockets& sockets = moving.sockets;
  REQUIRE(sockets.AllAnswer(2));
  const int64_t step = job.Slowest() + 400;
  const JsonReply answer = Ask(sockets, 2, "/v1/apply?at_step=" + std::to_string(step), Long(7));
  CHECK(answer.status == 200);
  CHECK(answer.json["outcome"] == "written");
  CHECK(answer.json["taken"] == "armed");
  CHECK(answer.json["at_step"] == step);
  CHECK(sockets.Ask(0, "GET", "/v1/status")["armed"]["at_step"] == step);
  // While it waits the plan in force pauses and goes on.
  AskInTime(sockets, 1, "/v1/pause");
  REQUIRE(AllArePaused(job, true));
  AskInTime(sockets, 1, "/v1/resume");
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  REQUIRE(job.WaitForAll(EventKind::kDrained, 2));
  REQUIRE(job[0].WaitFor(EventKind::kWroteBack));
  job.Close();
  for (auto& rank : job.ranks) CHECK(rank->Events(EventKind::kApplied)[1].step == step);
  CheckAllHave(job, job[0].Steps("grad_reduced"));
  const Steps steps = job[1].Steps("grad_reduced");
  CHECK(std::vector(steps.end() - 7, steps.end()) == From(step, 7));
  CHECK(steps.at(steps.size() - 8) == step - 1);
}

TEST_CASE("an edit that waits for its step is superseded by the next, also by a stop, with an event") {
  MovingJob moving(2);
  RankedJob& job = moving.job;
  const ControlSockets& sockets = moving.sockets;
  const std::string far = "/v1/apply?at_step=" + std::to_string(job.Slowest() + 1000000);
  const JsonReply first = Ask(sockets, 0, far, Long(7));
  CHECK(first.json["taken"] == "armed");
  const JsonReply second = Ask(sockets, 0, "/v1/apply", Long(8000));
  REQUIRE(job.WaitForAll(EventKind::kApplied, 2));
  REQUIRE(job[0].WaitFor(EventKind::kSuperseded));
  CHECK(job[0].Events(EventKind::kSuperseded)[0].plan_id == first.json["plan_id"]);
  Ask(sockets, 1, far, Long(9));
  CHECK(Ask(sockets, 1, "/v1/stop").json["outcome"] == "written");
  REQUIRE(job.WaitForAll(EventKind::kDrained, 2));
  REQUIRE(job[0].WaitFor(EventKind::kSuperseded, 2));
  REQUIRE(Eventually([&] { return job[0].monitor->GetStatus().state == RunState::kIdle; }));
  job.Close();
  for (auto& rank : job.ranks) CHECK(rank->Count(EventKind::kApplied) == 2);
  CheckAllHave(job, job[0].Steps("grad_reduced"));
}

TEST_CASE("a model that grows while an edit waits for its step keeps the edit, for that step", "[slow]") {
  RankedJob job(2, Long());
  job.keeps_up = true;  // no row is dropped, however slow the machine is
  const ControlSockets sockets;
  job.Start();
  for (int i = 0; i < 6; ++i)
    for (auto& rank : job.ranks) rank->TrainStep();
  REQUIRE(job.WaitForAll(EventKind::kArmed));
  for (int i = 0; i < 6; ++i)
    for (auto& rank : job.ranks) rank->TrainStep();
  const JsonReply answer = Ask(sockets, 0, "/v1/apply?at_step=600", Long(4));
  CHECK(answer.json["at_step"] == 600);
  for (auto& rank : job.ranks) REQUIRE(rank->Attach().ok());
  job.Run(milliseconds(2));
  REQUIRE(job[0].WaitFor(EventKind::kWroteBack));
  job.Close();
  for (auto& rank : job.ranks) {
    const Steps steps = rank->Steps("grad_reduced");
    CHECK(std::vector(steps.end() - 4, steps.end()) == From(600, 4));
    CHECK(steps.at(steps.size() - 5) == 599);
  }
}

}  // namespace
}  // namespace stepwatch::testing
