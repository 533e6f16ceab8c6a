// The control sockets of a job of several ranks: any of them answers for all, through the store.
#include <future>
#include <nlohmann/json.hpp>

#include "tests/api/control_sockets.h"
#include "tests/api/ranked_job.h"

namespace stepwatch::testing {
namespace {

TEST_CASE("any rank's control socket answers for all ranks: plan, state, step, and the run that they share") {
  const ControlSockets sockets;
  StartedRankedJob job(4, ConfigText({.collect_times = 1000000}));
  job.Run(milliseconds(2));
  REQUIRE(job.WaitForAll(EventKind::kApplied));
  for (const size_t asked : {0, 3}) {
    INFO("rank " << asked);
    REQUIRE(sockets.AllAnswer(asked));
    const Json ranks = sockets.Ranks(asked);
    CHECK(ranks["world_size"] == 4);
    CHECK(ranks["alone"].is_null());
    CHECK(ranks["missing"].empty());
    CHECK(ranks["reasons"].empty());
    for (size_t rank = 0; rank < 4; ++rank) {
      const Json& each = ranks["ranks"][rank];
      CHECK(each["rank"] == rank);
      CHECK(each["plan_id"] == 1);
      CHECK(each["state"] == "COLLECTING");
      CHECK(each["step"].get<int64_t>() > 0);
      CHECK(each["run_id"] == ranks["run_id"]);
      CHECK(each["incarnation"].get<std::string>().size() == 8);
    }
  }
  CHECK(sockets.Ask(2, "GET", "/v1/status")["run_id"] == sockets.Ranks(0)["run_id"]);
  job.Close();
}

TEST_CASE("the metrics of rank 0 count the ranks by their last reported states, and ask no rank") {
  const ControlSockets sockets;
  StartedRankedJob job(3, ConfigText(Off()));
  const auto has = [&](size_t rank, const std::string& line) {
    const auto page = sockets.client(rank).Get("/metrics", std::chrono::seconds(20));
    return page.ok() && Has(page.value().body, "stepwatch_ranks" + line);
  };
  CHECK(has(0, "{state=\"IDLE\"} 1\n"));
  CHECK(has(0, "{state=\"UNKNOWN\"} 2\n"));
  CHECK(has(0, "_asked_timestamp_seconds 0\n"));
  REQUIRE(sockets.AllAnswer(1));  // the question goes to rank 0
  CHECK(has(0, "{state=\"IDLE\"} 3\n"));
  CHECK(has(0, "{state=\"UNKNOWN\"} 0\n"));
  CHECK_FALSE(has(0, "_asked_timestamp_seconds 0\n"));
  CHECK_FALSE(has(1, ""));
  job.stores[2]->Hold();
  REQUIRE(Eventually([&] { return sockets.Ranks(0)["ranks"].size() == 2; }));
  CHECK(has(0, "{state=\"UNKNOWN\"} 1\n"));
  job.stores[2]->LetGo();
  job.Close();
}

TEST_CASE("a rank that does not answer is missing, and is there again when it does") {
  const ControlSockets sockets;
  StartedRankedJob job(3, ConfigText(Off()));
  REQUIRE(sockets.AllAnswer(0));
  job.stores[2]->Hold();
  Json ranks;
  REQUIRE(Eventually([&] { return (ranks = sockets.Ranks(0))["ranks"].size() == 2; }));
  CHECK(ranks["complete"] == false);
  REQUIRE(ranks["missing"].size() == 1);
  CHECK(ranks["missing"][0]["rank"] == 2);
  CHECK(ranks["missing"][0]["reason"].get<std::string>().find("no answer within 1500 ms") == 0);
  // It cannot forward a request of its own either.
  CHECK(sockets.client(2).Get("/v1/ranks", std::chrono::seconds(20)).value().status == 503);
  CHECK(sockets.client(2).Get("/v1/status").value().status == 200);
  job.stores[2]->LetGo();
  CHECK(sockets.AllAnswer(0));
  CHECK(sockets.AllAnswer(2));
  job.Close();
}

TEST_CASE("a dry run on all ranks builds on each, and arms nothing anywhere") {
  RankedJob job(3, ConfigText(Off()));
  auto garbling = std::make_shared<Garbling>(job[1].options.store);
  job[1].options.store = garbling;
  const ControlSockets sockets;
  job.Start();
  job.Run(milliseconds(2));
  REQUIRE(sockets.AllAnswer(0));
  const std::string wanted = ConfigText({.collect_times = 5});
  for (const size_t asked : {0, 2}) {
    REQUIRE(sockets.AllAccept(asked, wanted));
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

  // Rank 1 reads other bytes than those that were sent.
  garbling->garbles = true;
  const Json refused = sockets.Ask(0, "POST", "/v1/dry-run", wanted);
  CHECK(refused["agreed"] == false);
  CHECK(refused["accepted"].get<int64_t>() < 3);
  garbling->garbles = false;

  CHECK(sockets.AllAccept(2, wanted + std::string(size_t{64} << 10, '\n')));
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
    "a config that is applied at any rank's control socket is in rank 0's file and runs on all ranks, once, and the "
    "history names the sender") {
  const ControlSockets sockets;
  StartedRankedJob job(3, ConfigText(Off()));
  job.Run(milliseconds(2));
  REQUIRE(sockets.AllAnswer(2));
  const http::ClientRequest apply{"POST", "/v1/apply", ConfigText({.collect_times = 3}), "", "once"};
  http::Reply first;
  REQUIRE(Eventually([&] {
    const auto reply = sockets.client(2).Ask(apply, std::chrono::seconds(20));
    if (reply.ok()) first = reply.value();
    return first.status == 200;
  }));
  REQUIRE(job.WaitForAll(EventKind::kDrained));
  CHECK(Has(first.body, "\"written\""));
  // Again, at another control socket: it is not performed twice.
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

TEST_CASE("questions and edits at the same time: each edit is agreed on, and each question is answered") {
  const ControlSockets sockets;
  StartedRankedJob job(3, ConfigText(Off()));
  job.Run(milliseconds(1));
  REQUIRE(sockets.AllAnswer(0));
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

TEST_CASE("ranks that share no store, or are static, answer for themselves alone") {
  for (const bool has_store : {false, true}) {
    RankedJob job(2, ConfigText({.collect_times = 1}));
    for (auto& rank : job.ranks) {
      if (!has_store) rank->options.store = nullptr;
      rank->options.dynamic = !has_store;
    }
    const ControlSockets sockets;
    for (size_t rank = 2; rank-- > 0;) REQUIRE(job[rank].Create().ok());
    for (auto& rank : job.ranks) REQUIRE(rank->Attach().ok());
    const Json ranks = sockets.Ranks(1);
    CHECK(ranks["complete"] == false);
    CHECK(ranks["ranks"].size() == 1);
    CHECK(ranks["ranks"][0]["rank"] == 1);
    CHECK(Has(ranks["alone"].get<std::string>(), "only this rank was asked"));
    CHECK(sockets.Ask(1, "POST", "/v1/dry-run", ConfigText(Off()))["agreed"] == false);
    job.Run(milliseconds(1));
    REQUIRE(job.WaitForAll(EventKind::kDrained));
    job.Close();
  }
}

TEST_CASE(
    "a rank without a control socket answers the others, and rank 0 without one is named as the reason for no answer") {
  RankedJob job(2, ConfigText(Off()));
  const ControlSockets sockets;
  job[1].options.control_socket = false;
  job.Start();
  CHECK(sockets.AllAnswer(0));
  job.Close();

  RankedJob other(2, ConfigText(Off()));
  const ControlSockets others;
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
