// Pausing, resuming and rotating through a control socket: the answer for each outcome.
#include <nlohmann/json.hpp>

#include "tests/control_socket/json_reply.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

using testing::JsonReply;

JsonReply PostTo(const TestServer& server, const std::string& target, const std::string& id = "") {
  return testing::Send(server.client(), {"POST", target, "", "", id});
}

TEST_CASE("the answer to a pause has its plan and its ranks") {
  TestServer server;
  server.job->pause_result = {status::PauseResult::Outcome::kDone, false, 3, 41, 40};
  JsonReply reply = PostTo(server, "/v1/pause");
  CHECK(reply.status == 200);
  CHECK(reply.json == Json{{"version", 1},
                           {"outcome", "paused"},
                           {"paused", true},
                           {"plan_id", 3},
                           {"step", 41},
                           {"at_step", 40},
                           {"ranks", "all"}});
  server.job->pause_result.at_step = -1;
  server.job->pause_result.is_of_all_ranks = false;
  reply = PostTo(server, "/v1/resume");
  CHECK(reply.json["outcome"] == "resumed");
  CHECK(reply.json["paused"] == false);
  CHECK(reply.json["at_step"].is_null());
  CHECK(reply.json["ranks"] == "this");
}

TEST_CASE("a repeated request for a pause does not reach the job again") {
  TestServer server;
  server.job->pause_result.outcome = status::PauseResult::Outcome::kDone;
  CHECK(PostTo(server, "/v1/pause", "one").json["outcome"] == "paused");
  server.job->pause_result.outcome = status::PauseResult::Outcome::kUnchanged;
  CHECK(PostTo(server, "/v1/pause", "one").json["outcome"] == "paused");
  CHECK(PostTo(server, "/v1/pause", "two").json["outcome"] == "unchanged");
}

TEST_CASE("outcomes without a pause are distinguished") {
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
    const JsonReply reply = PostTo(server, "/v1/pause");
    CHECK(reply.status == status);
    CHECK((status < 400 ? reply.json["outcome"] : reply.json["error"]["code"]) == word);
  }
}

TEST_CASE("the answer to a rotation has the directory and the closed files, or that it is under way") {
  using Outcome = status::RotateResult::Outcome;
  TestServer server;
  server.job->rotate_result = {Outcome::kDone, {2, 40, {"actv_0-9.csv"}}, "/out/run"};
  JsonReply reply = PostTo(server, "/v1/rotate");
  CHECK(reply.status == 200);
  CHECK(reply.json == Json{{"version", 1},
                           {"outcome", "rotated"},
                           {"segment", 2},
                           {"last_step", 40},
                           {"directory", "/out/run"},
                           {"files", Json::array({"actv_0-9.csv"})},
                           {"ranks", "all"}});
  server.job->rotate_result = {Outcome::kAsked, {3, -1, {}}, "/out/run"};
  reply = PostTo(server, "/v1/rotate");
  CHECK(reply.status == 202);
  CHECK(reply.json["outcome"] == "under_way");
  CHECK(reply.json["last_step"].is_null());
  for (const auto& [outcome, word] :
       {std::pair{Outcome::kUnderWay, "under_way"}, {Outcome::kNotCollecting, "not_collecting"}}) {
    server.job->rotate_result.outcome = outcome;
    reply = PostTo(server, "/v1/rotate");
    CHECK(reply.status == 409);
    CHECK(reply.json["error"]["code"] == word);
  }
}

TEST_CASE("GET performs none of them") {
  TestServer server;
  for (const char* path : {"/v1/pause", "/v1/resume", "/v1/rotate"})
    CHECK(server.client().Get(path).value().status == 405);
}

}  // namespace
}  // namespace stepwatch::control_socket
