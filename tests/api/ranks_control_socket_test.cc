// The control sockets of a job of several ranks: any of them answers for all, through the store.
#include <future>
#include <nlohmann/json.hpp>

#include "src/http/client.h"
#include "src/json/json.h"
#include "tests/api/open_control_sockets.h"
#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("any rank's control socket answers for all ranks: plan, state, step, and the run that they share") {
  RankedJob job(4, ConfigText({.collect_times = 1000000}));
  const OpenControlSockets sockets;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(job.WaitForAll(EventKind::kApplied));
  for (const size_t asked : {0, 3}) {
    INFO("rank " << asked);
    REQUIRE(sockets.AllAreHeard(asked));
    const Json ranks = sockets.Ranks(asked);
    CHECK(ranks["world_size"] == 4);
    CHECK(ranks["alone"].is_null());
    CHECK(ranks["missing"].empty());
    CHECK(ranks["reasons"].empty());
    for (size_t rank = 0; rank < 4; ++rank) {
      const Json& said = ranks["ranks"][rank];
      CHECK(said["rank"] == rank);
      CHECK(said["plan_id"] == 1);
      CHECK(said["state"] == "COLLECTING");
      CHECK(said["step"].get<int64_t>() > 0);
      CHECK(said["run_id"] == ranks["run_id"]);
      CHECK(said["incarnation"].get<std::string>().size() == 8);
    }
  }
  CHECK(sockets.Ask(2, "GET", "/v1/status")["run_id"] == sockets.Ranks(0)["run_id"]);
  job.Close();
}

TEST_CASE("the metrics of rank 0 count the ranks by the states that they told last, and ask nobody") {
  RankedJob job(3, ConfigText(Off()));
  const OpenControlSockets sockets;
  job.Start();
  const auto says = [&](size_t rank, const std::string& line) {
    const auto page = sockets.client(rank).Get("/metrics", std::chrono::seconds(20));
    return page.ok() && page.value().body.find("stepwatch_ranks" + line) != std::string::npos;
  };
  CHECK(says(0, "{state=\"IDLE\"} 1\n"));
  CHECK(says(0, "{state=\"UNKNOWN\"} 2\n"));
  CHECK(says(0, "_asked_timestamp_seconds 0\n"));
  REQUIRE(sockets.AllAreHeard(1));  // the question goes to rank 0
  CHECK(says(0, "{state=\"IDLE\"} 3\n"));
  CHECK(says(0, "{state=\"UNKNOWN\"} 0\n"));
  CHECK_FALSE(says(0, "_asked_timestamp_seconds 0\n"));
  CHECK_FALSE(says(1, ""));
  job.stores[2]->Hold();
  REQUIRE(Eventually([&] { return sockets.Ranks(0)["ranks"].size() == 2; }));
  CHECK(says(0, "{state=\"UNKNOWN\"} 1\n"));
  job.stores[2]->LetGo();
  job.Close();
}

TEST_CASE("a rank that cannot be heard is missing, and is heard again when it can") {
  RankedJob job(3, ConfigText(Off()));
  const OpenControlSockets sockets;
  job.Start();
  REQUIRE(sockets.AllAreHeard(0));
  job.stores[2]->Hold();
  Json ranks;
  REQUIRE(Eventually([&] { return (ranks = sockets.Ranks(0))["ranks"].size() == 2; }));
  CHECK(ranks["complete"] == false);
  REQUIRE(ranks["missing"].size() == 1);
  CHECK(ranks["missing"][0]["rank"] == 2);
  CHECK(ranks["missing"][0]["reason"].get<std::string>().find("no answer within 1500 ms") == 0);
  // What it is asked itself it cannot hand on.
  CHECK(sockets.client(2).Get("/v1/ranks", std::chrono::seconds(20)).value().status == 503);
  CHECK(sockets.client(2).Get("/v1/status").value().status == 200);
  job.stores[2]->LetGo();
  CHECK(sockets.AllAreHeard(0));
  CHECK(sockets.AllAreHeard(2));
  job.Close();
}

TEST_CASE("a dry run on all ranks builds on each, and arms nothing anywhere") {
  RankedJob job(3, ConfigText(Off()));
  auto garbling = std::make_shared<Garbling>(job[1].options.store);
  job[1].options.store = garbling;
  const OpenControlSockets sockets;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(sockets.AllAreHeard(0));
  const std::string wanted = ConfigText({.collect_times = 5});
  for (const size_t asked : {0, 2}) {
    REQUIRE(sockets.AllWouldTake(asked, wanted));
    const Json trials = sockets.Ask(asked, "POST", "/v1/dry-run", wanted);
    CHECK(trials["world_size"] == 3);
    for (const Json& rank : trials["ranks"]) {
      CHECK(rank["collects"] == true);
      CHECK(rank["rows_per_step"].get<int64_t>() > 0);
    }
  }
  CHECK(sockets.Ask(0, "POST", "/v1/dry-run", ConfigText(Off()))["ranks"][0]["collects"] == false);

  const Json invalid = sockets.Ask(2, "POST", "/v1/dry-run", "{\"ops\": 3}");
  CHECK(invalid["agreed"] == false);
  CHECK(invalid["error"]["line"] == 1);
  CHECK(invalid["ranks"].empty());

  // What rank 1 reads is not what was sent.
  garbling->garbles = true;
  const Json refused = sockets.Ask(0, "POST", "/v1/dry-run", wanted);
  CHECK(refused["agreed"] == false);
  CHECK(refused["accepted"].get<int64_t>() < 3);
  garbling->garbles = false;

  CHECK(sockets.AllWouldTake(2, wanted + std::string(size_t{64} << 10, '\n')));
  for (auto& rank : job.ranks) {
    CHECK(rank->Count(EventKind::kArmed) == 0);
    CHECK(rank->Count(EventKind::kAborted) == 0);
    CHECK(rank->monitor->GetStatus().state == RunState::kIdle);
  }
  // The ranks still agree on an edit.
  job[0].Edit(ConfigText({.collect_times = 2}));
  REQUIRE(job.Settle(1));
  job.Close();
}

TEST_CASE(
    "a config that is given at any rank's control socket runs on all ranks, once, and the history names the control "
    "socket") {
  RankedJob job(3, ConfigText(Off()));
  const OpenControlSockets sockets;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(sockets.AllAreHeard(2));
  const http::ClientRequest apply{"POST", "/v1/apply", ConfigText({.collect_times = 3}), "", "once"};
  http::Reply first;
  REQUIRE(Eventually([&] {
    const auto reply = sockets.client(2).Ask(apply, std::chrono::seconds(20));
    if (reply.ok()) first = reply.value();
    return first.status == 200;
  }));
  REQUIRE(job.WaitForAll(EventKind::kDrained));
  // Again, at another control socket: nothing is done twice.
  const auto again = sockets.client(1).Ask(apply, std::chrono::seconds(20));
  REQUIRE(again.ok());
  CHECK(again.value().body == first.body);
  for (auto& rank : job.ranks) CHECK(rank->Count(EventKind::kApplied) == 1);
  const Json lines = sockets.Ask(1, "GET", "/v1/history")["lines"];
  REQUIRE_FALSE(lines.empty());
  CHECK(lines[0]["peer"]["uid"] == ::geteuid());
  CHECK(lines[0]["peer"]["rank"] == 2);
  job.Close();
}

TEST_CASE("questions and edits at the same time: each edit is agreed on, each question answered") {
  RankedJob job(3, ConfigText(Off()));
  const OpenControlSockets sockets;
  job.Start();
  job.Run(milliseconds(1));
  REQUIRE(sockets.AllAreHeard(0));
  std::atomic<bool> over{false};
  std::atomic<int> answered{0};
  std::vector<std::future<void>> askers;
  for (const size_t rank : {0, 1, 2}) {
    const http::Client client = sockets.client(rank);
    askers.push_back(std::async(std::launch::async, [&over, &answered, client] {
      while (!over) {
        const auto reply = client.Get("/v1/ranks", std::chrono::seconds(20));
        if (reply.ok() && reply.value().status == 200) ++answered;
      }
    }));
  }
  for (int i = 0; i < 8; ++i) job[0].Edit(ConfigText({.collect_times = 2 + i}));
  REQUIRE(Eventually([&] { return answered >= 6; }));
  over = true;
  for (auto& asker : askers) asker.get();
  job[0].Edit(ConfigText({.collect_times = 30}));
  REQUIRE(Eventually([&] {
    return std::all_of(job.ranks.begin(), job.ranks.end(), [](auto& rank) {
      const auto drained = rank->Events(EventKind::kDrained);
      return !drained.empty() && drained.back().collected == 30;
    });
  }));
  job.Close();
  for (auto& rank : job.ranks) CHECK(rank->Steps("grad_reduced") == job[0].Steps("grad_reduced"));
}

TEST_CASE("ranks that share no store, or are static, answer for themselves and say so") {
  for (const bool has_store : {false, true}) {
    RankedJob job(2, ConfigText({.collect_times = 1}));
    for (auto& rank : job.ranks) {
      if (!has_store) rank->options.store = nullptr;
      rank->options.dynamic = !has_store;
    }
    const OpenControlSockets sockets;
    for (size_t rank = 2; rank-- > 0;) REQUIRE(job[rank].Create().ok());
    for (auto& rank : job.ranks) REQUIRE(rank->Attach().ok());
    const Json ranks = sockets.Ranks(1);
    CHECK(ranks["complete"] == false);
    CHECK(ranks["ranks"].size() == 1);
    CHECK(ranks["ranks"][0]["rank"] == 1);
    CHECK(ranks["alone"].get<std::string>().find("only this rank was asked") != std::string::npos);
    CHECK(sockets.Ask(1, "POST", "/v1/dry-run", ConfigText(Off()))["agreed"] == false);
    job.Run(milliseconds(1));
    REQUIRE(job.WaitForAll(EventKind::kDrained));
    job.Close();
  }
}

TEST_CASE(
    "a rank without a control socket answers the others, and rank 0 without one says why nobody is answered there") {
  RankedJob job(2, ConfigText(Off()));
  const OpenControlSockets sockets;
  job[1].options.control_socket = false;
  job.Start();
  CHECK(sockets.AllAreHeard(0));
  job.Close();

  RankedJob other(2, ConfigText(Off()));
  const OpenControlSockets others;
  other[0].options.control_socket = false;
  other.Start();
  const auto reply = others.client(1).Get("/v1/ranks", std::chrono::seconds(20));
  REQUIRE(reply.ok());
  CHECK(reply.value().status == 503);
  CHECK(Eventually([&] {
    return others.client(1)
               .Get("/v1/ranks", std::chrono::seconds(20))
               .value()
               .body.find("rank 0 has no control socket") != std::string::npos;
  }));
  other.Close();
}

}  // namespace
}  // namespace stepwatch::testing
