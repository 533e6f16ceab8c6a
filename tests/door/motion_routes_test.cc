// Pausing, resuming and rotating through a door: what each outcome is told as.
#include <nlohmann/json.hpp>

#include "tests/door/open_door.h"

namespace stepwatch::door {
namespace {

struct PostReply {
  int status = 0;
  Json json;
};

PostReply PostTo(OpenDoor& door, const std::string& target) {
  const Result<Reply> reply = door.client().Ask("POST", target);
  REQUIRE(reply.ok());
  return {reply.value().status, ParseJson(reply.value().body).value()};
}

TEST_CASE("a pause that has begun says for which plan, and for which ranks") {
  OpenDoor door;
  door.job->pause_result = {PauseResult::Outcome::kDone, false, 3, 41, 40};
  PostReply told = PostTo(door, "/v1/pause");
  CHECK(told.status == 200);
  CHECK(told.json == Json{{"version", 1},
                          {"outcome", "paused"},
                          {"paused", true},
                          {"plan_id", 3},
                          {"step", 41},
                          {"at_step", 40},
                          {"ranks", "all"}});
  door.job->pause_result.at_step = -1;
  door.job->pause_result.is_of_all_ranks = false;
  told = PostTo(door, "/v1/resume");
  CHECK(told.json["outcome"] == "resumed");
  CHECK(told.json["paused"] == false);
  CHECK(told.json["at_step"].is_null());
  CHECK(told.json["ranks"] == "this");
}

TEST_CASE("a pause that is asked for again with its id is not asked of the job again") {
  OpenDoor door;
  const Question pause{"POST", "/v1/pause", "", "", "one"};
  const auto outcome_of = [&](const Question& question) {
    const Result<Reply> reply = door.client().Ask(question);
    REQUIRE(reply.ok());
    return ParseJson(reply.value().body).value()["outcome"];
  };
  door.job->pause_result.outcome = PauseResult::Outcome::kDone;
  CHECK(outcome_of(pause) == "paused");
  door.job->pause_result.outcome = PauseResult::Outcome::kUnchanged;
  CHECK(outcome_of(pause) == "paused");
  CHECK(outcome_of({"POST", "/v1/pause", "", "", "two"}) == "unchanged");
}

TEST_CASE("what cannot be paused, or not yet, is told apart") {
  using Outcome = PauseResult::Outcome;
  const std::tuple<Outcome, int, const char*> cases[] = {{Outcome::kUnchanged, 200, "unchanged"},
                                                         {Outcome::kAsked, 202, "under_way"},
                                                         {Outcome::kNotCollecting, 409, "not_collecting"},
                                                         {Outcome::kEnding, 409, "ending"},
                                                         {Outcome::kRanks, 409, "ranks"},
                                                         {Outcome::kNoAnswer, 503, "busy"}};
  OpenDoor door;
  for (const auto& [outcome, status, word] : cases) {
    door.job->pause_result.outcome = outcome;
    const PostReply told = PostTo(door, "/v1/pause");
    CHECK(told.status == status);
    CHECK((status < 400 ? told.json["outcome"] : told.json["error"]["code"]) == word);
  }
}

TEST_CASE("a rotation names the directory and the files that are closed, or says that it is under way") {
  using Outcome = RotateResult::Outcome;
  OpenDoor door;
  door.job->rotate_result = {Outcome::kDone, 2, 40, "/out/run", {"actv_0-9.csv"}};
  PostReply told = PostTo(door, "/v1/rotate");
  CHECK(told.status == 200);
  CHECK(told.json == Json{{"version", 1},
                          {"outcome", "rotated"},
                          {"segment", 2},
                          {"last_step", 40},
                          {"directory", "/out/run"},
                          {"files", Json::array({"actv_0-9.csv"})},
                          {"ranks", "all"}});
  door.job->rotate_result = {Outcome::kAsked, 3, -1, "/out/run", {}};
  told = PostTo(door, "/v1/rotate");
  CHECK(told.status == 202);
  CHECK(told.json["outcome"] == "under_way");
  CHECK(told.json["last_step"].is_null());
  for (const auto& [outcome, word] :
       {std::pair{Outcome::kUnderWay, "under_way"}, {Outcome::kNotCollecting, "not_collecting"}}) {
    door.job->rotate_result.outcome = outcome;
    told = PostTo(door, "/v1/rotate");
    CHECK(told.status == 409);
    CHECK(told.json["error"]["code"] == word);
  }
}

TEST_CASE("none of them is done by asking for it with GET") {
  OpenDoor door;
  for (const char* path : {"/v1/pause", "/v1/resume", "/v1/rotate"})
    CHECK(door.client().Get(path).value().status == 405);
}

}  // namespace
}  // namespace stepwatch::door
