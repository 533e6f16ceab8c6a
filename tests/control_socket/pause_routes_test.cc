// Pausing, resuming and rotating through a control socket: what each outcome is told as.
#include <nlohmann/json.hpp>

#include "src/http/client.h"
#include "src/json/json.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

struct PostReply {
  int status = 0;
  Json json;
};

PostReply PostTo(TestServer& server, const std::string& target) {
  const Result<http::Reply> reply = server.client().Ask("POST", target);
  REQUIRE(reply.ok());
  return {reply.value().status, json::Parse(reply.value().body).value()};
}

TEST_CASE("a pause that has begun says for which plan, and for which ranks") {
  TestServer server;
  server.job->pause_result = {status::PauseResult::Outcome::kDone, false, 3, 41, 40};
  PostReply told = PostTo(server, "/v1/pause");
  CHECK(told.status == 200);
  CHECK(told.json == Json{{"version", 1},
                          {"outcome", "paused"},
                          {"paused", true},
                          {"plan_id", 3},
                          {"step", 41},
                          {"at_step", 40},
                          {"ranks", "all"}});
  server.job->pause_result.at_step = -1;
  server.job->pause_result.is_of_all_ranks = false;
  told = PostTo(server, "/v1/resume");
  CHECK(told.json["outcome"] == "resumed");
  CHECK(told.json["paused"] == false);
  CHECK(told.json["at_step"].is_null());
  CHECK(told.json["ranks"] == "this");
}

TEST_CASE("a pause that is asked for again with its id is not asked of the job again") {
  TestServer server;
  const http::ClientRequest pause{"POST", "/v1/pause", "", "", "one"};
  const auto outcome_of = [&](const http::ClientRequest& question) {
    const Result<http::Reply> reply = server.client().Ask(question);
    REQUIRE(reply.ok());
    return json::Parse(reply.value().body).value()["outcome"];
  };
  server.job->pause_result.outcome = status::PauseResult::Outcome::kDone;
  CHECK(outcome_of(pause) == "paused");
  server.job->pause_result.outcome = status::PauseResult::Outcome::kUnchanged;
  CHECK(outcome_of(pause) == "paused");
  CHECK(outcome_of({"POST", "/v1/pause", "", "", "two"}) == "unchanged");
}

TEST_CASE("what cannot be paused, or not yet, is told apart") {
  using Outcome = status::PauseResult::Outcome;
  const std::tuple<Outcome, int, const char*> cases[] = {{Outcome::kUnchanged, 200, "unchanged"},
                                                         {Outcome::kAsked, 202, "under_way"},
                                                         {Outcome::kNotCollecting, 409, "not_collecting"},
                                                         {Outcome::kEnding, 409, "ending"},
                                                         {Outcome::kRanks, 409, "ranks"},
                                                         {Outcome::kNoAnswer, 503, "busy"}};
  TestServer server;
  for (const auto& [outcome, status, word] : cases) {
    server.job->pause_result.outcome = outcome;
    const PostReply told = PostTo(server, "/v1/pause");
    CHECK(told.status == status);
    CHECK((status < 400 ? told.json["outcome"] : told.json["error"]["code"]) == word);
  }
}

TEST_CASE("a rotation names the directory and the files that are closed, or says that it is under way") {
  using Outcome = status::RotateResult::Outcome;
  TestServer server;
  server.job->rotate_result = {Outcome::kDone, {2, 40, {"actv_0-9.csv"}}, "/out/run"};
  PostReply told = PostTo(server, "/v1/rotate");
  CHECK(told.status == 200);
  CHECK(told.json == Json{{"version", 1},
                          {"outcome", "rotated"},
                          {"segment", 2},
                          {"last_step", 40},
                          {"directory", "/out/run"},
                          {"files", Json::array({"actv_0-9.csv"})},
                          {"ranks", "all"}});
  server.job->rotate_result = {Outcome::kAsked, {3, -1, {}}, "/out/run"};
  told = PostTo(server, "/v1/rotate");
  CHECK(told.status == 202);
  CHECK(told.json["outcome"] == "under_way");
  CHECK(told.json["last_step"].is_null());
  for (const auto& [outcome, word] :
       {std::pair{Outcome::kUnderWay, "under_way"}, {Outcome::kNotCollecting, "not_collecting"}}) {
    server.job->rotate_result.outcome = outcome;
    told = PostTo(server, "/v1/rotate");
    CHECK(told.status == 409);
    CHECK(told.json["error"]["code"] == word);
  }
}

TEST_CASE("none of them is done by asking for it with GET") {
  TestServer server;
  for (const char* path : {"/v1/pause", "/v1/resume", "/v1/rotate"})
    CHECK(server.client().Get(path).value().status == 405);
}

}  // namespace
}  // namespace stepwatch::control_socket
