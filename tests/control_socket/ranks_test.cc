#include "controller/control_socket/ranks.h"

#include <future>
#include <nlohmann/json.hpp>

#include "controller/control_socket/forward.h"
#include "controller/control_socket/perform.h"
#include "controller/control_socket/request_log.h"
#include "src/base/io_executor.h"
#include "src/http/answers.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "src/sockets/peer.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

using status::ChangeReport;
using status::ConfigChange;
using status::JobStatus;

JobStatus StatusOf(int rank, int world) {
  JobStatus status;
  status.rank = rank;
  status.world_size = world;
  status.reload.run_id = "abc";
  status.reload.incarnation = "f0";
  status.pid = 12;
  status.monitor.step = 41;
  return status;
}

RankWord WordOf(int rank, const std::string& text) {
  return {rank, text, 7, ""};
}

TEST_CASE("the answer has the report of each rank, and for ranks without one the reason") {
  JobStatus ill = StatusOf(1, 4);
  ill.monitor.fault = "disk full";
  ill.monitor.paused = true;
  const RankWords words{{WordOf(0, ReportText(StatusOf(0, 4))),
                         WordOf(1, ReportText(ill)),
                         WordOf(2, "{\"step\": "),
                         {3, "", 0, "no answer within 1500 ms"}},
                        ""};
  const Json ranks = RanksJson(StatusOf(0, 4), words);
  CHECK(ranks["complete"] == false);
  CHECK(ranks["run_id"] == "abc");
  REQUIRE(ranks["ranks"].size() == 2);
  CHECK(ranks["ranks"][0]["rank"] == 0);
  CHECK(ranks["ranks"][0]["step"] == 41);
  CHECK(ranks["ranks"][0]["incarnation"] == "f0");
  CHECK(ranks["ranks"][0]["heard_ms"] == 7);
  CHECK(ranks["ranks"][0]["paused"] == false);
  CHECK(ranks["ranks"][1]["paused"] == true);
  CHECK(ranks["missing"] == Json::parse(R"([{"rank": 2, "reason": "its answer is unreadable"},
                                            {"rank": 3, "reason": "no answer within 1500 ms"}])"));
  REQUIRE(ranks["reasons"].size() == 3);
  CHECK(ranks["reasons"][0]["reason"] == "disk full");
}

TEST_CASE("the states in the reports of other ranks are counted, whatever else they contain") {
  JobStatus failed = StatusOf(1, 6);
  failed.monitor.state = RunState::kFailed;
  const RankWords words{{WordOf(0, ReportText(StatusOf(0, 6))),
                         WordOf(1, ReportText(failed)),
                         WordOf(2, ReportText(failed)),
                         WordOf(3, R"({"state": "DREAMING"})"),
                         WordOf(4, R"({"state": 3})"),
                         {5, "", 0, "no answer within 1500 ms"}},
                        ""};
  status::StateCounts expected{};
  expected[static_cast<size_t>(RunState::kFailed)] = 2;
  CHECK(StatesFrom(0, words) == expected);
}

TEST_CASE("members of a wrong type are ignored in a report, and control characters are escaped") {
  const RankWords words{
      {WordOf(0,
              R"({"state": "IDLE", "step": 3, "pid": 1, "plan_id": "x", "fault": "a\u001b[2J", "more": {"a": [1]}})"),
       WordOf(1, R"({"state": 7, "step": 3, "pid": 1})")},
      ""};
  const Json ranks = RanksJson(StatusOf(0, 2), words);
  REQUIRE(ranks["ranks"].size() == 1);
  CHECK(ranks["missing"].size() == 1);
  const Json rank = ranks["ranks"][0];
  CHECK(rank["plan_id"].is_null());
  CHECK(rank["step"] == 3);
  CHECK(rank["fault"] == "a\\x1b[2J");
  CHECK_FALSE(rank.contains("more"));
}

TEST_CASE("a trial is agreed when every rank of the job would take the config") {
  const std::string yes = TrialText({Status(), true, 3, 12});
  Status refusal(StatusCode::kInvalid, "no module is called \"x\"");
  const std::string no = TrialText({refusal, false, 0, 0});
  CHECK(TrialsJson(StatusOf(0, 2), "ff", {{WordOf(0, yes), WordOf(1, yes)}, ""})["agreed"] == true);
  const Json refused = TrialsJson(StatusOf(0, 2), "ff", {{WordOf(0, yes), WordOf(1, no)}, ""});
  CHECK(refused["agreed"] == false);
  CHECK(refused["accepted"] == 1);
  CHECK(refused["complete"] == true);
  CHECK(refused["ranks"][0]["rows_per_step"] == 12);
  CHECK(refused["ranks"][1]["error"]["message"] == "no module is called \"x\"");
  CHECK(refused["reasons"][0]["rank"] == 1);
  const Json alone = TrialsJson(StatusOf(0, 2), "ff", {{WordOf(0, yes)}, "the ranks share no store"});
  CHECK(alone["agreed"] == false);
  CHECK(alone["complete"] == false);
  CHECK(alone["alone"] == "the ranks share no store");
  const Json odd = TrialsJson(StatusOf(0, 2), "ff", {{WordOf(0, UnknownQuestionText()), WordOf(1, "[]")}, ""});
  CHECK(odd["ranks"].empty());
  CHECK(odd["missing"].size() == 2);
}

TEST_CASE("a question reads back, and another text is unknown") {
  const RankQuestion trial = RankQuestionFrom(QuestionText({RankMatter::kTrial, "{\n}"}));
  CHECK(trial.matter == RankMatter::kTrial);
  CHECK(trial.bytes == "{\n}");
  CHECK(RankQuestionFrom(QuestionText({RankMatter::kReport, ""})).matter == RankMatter::kReport);
  for (const std::string text : {"", "\n", "{}", "{}\n", "[1]\n", "{\"ask\": \"fortune\"}\n", "{\"ask\": 3}\nx"})
    CHECK(RankQuestionFrom(text).matter == RankMatter::kUnknown);
  CHECK(RankQuestionFrom(std::string(100000, '[') + "\n").matter == RankMatter::kUnknown);
}

TEST_CASE("a report stays small whatever went wrong") {
  JobStatus status = StatusOf(0, 1);
  status.monitor.fault = std::string(1000000, '\x01');
  status.reload.refusal = Status(StatusCode::kInvalid, std::string(1000000, '"'));
  CHECK(ReportText(status).size() < 16384);
}

TEST_CASE("a forwarded request and its answer read back") {
  Forwarded sent{"POST", {}};
  sent.request.target = "/v1/dry-run?a=b";
  sent.request.body = "{\n \"a\": \"\u00e9\"\n}\n";
  sent.request.if_match = "ff";
  sent.request.request_id = "7";
  sent.request.peer = sockets::Peer{12, 1000};
  const Forwarded read = ForwardedFrom(3, ForwardText(sent).value()).value();
  CHECK(read.method == "POST");
  CHECK(read.request.target == sent.request.target);
  CHECK(read.request.body == sent.request.body);
  CHECK(read.request.if_match == "ff");
  CHECK(read.request.request_id == "7");
  REQUIRE(read.request.peer);
  CHECK(read.request.peer->uid == 1000);
  CHECK(read.request.peer->pid == 12);
  CHECK(read.request.from_rank == 3);
  sent.request.body = std::string(size_t{1} << 20, '\n');
  CHECK(ForwardedFrom(3, ForwardText(sent).value()).value().request.body == sent.request.body);
  sent.request.body = "\xff";
  CHECK_FALSE(ForwardText(sent).ok());
  for (const std::string text : {"", "{}", "[]\n", "{\"uid\": -1}\n", "\n{}"}) {
    const auto odd = ForwardedFrom(1, text);
    if (odd.ok()) CHECK_FALSE(odd.value().request.peer);
  }

  http::Answer answer;
  answer.status = 412;
  answer.body = "{\"a\":\n1}";
  answer.etag = "ff";
  answer.retry_after = 2;
  const http::Answer same = AnswerFrom(AnswerText(answer)).value();
  CHECK(same.status == 412);
  CHECK(same.body == answer.body);
  CHECK(same.etag == "ff");
  CHECK(same.retry_after == 2);
  answer.etag = "ff\r\nSet-Cookie: a";
  CHECK_FALSE(AnswerFrom(AnswerText(answer)).ok());
  CHECK_FALSE(AnswerFrom("{\"status\": 7}\n").ok());
  CHECK_FALSE(AnswerFrom("{}\n").ok());
}

TEST_CASE("a control socket asks the ranks, and blocks no thread while they are silent") {
  TestServer server;
  server.job->SetStatus(StatusOf(0, 2));
  server.job->SetWords(RankWords{{WordOf(0, ReportText(StatusOf(0, 2))), WordOf(1, ReportText(StatusOf(1, 2)))}, ""});
  CHECK(server.GetJson("/v1/ranks")["complete"] == true);
  const auto trial = server.client().Ask("POST", "/v1/dry-run", "{\"targets\": {}}");
  REQUIRE(trial.ok());
  CHECK(trial.value().status == 200);
  const auto refused = server.client().Ask("POST", "/v1/dry-run", "{\"targets\": ");
  REQUIRE(refused.ok());
  CHECK(json::Parse(refused.value().body).value()["error"]["line"] == 1);
  CHECK(server.job->Questions().size() == 2);
  server.job->SetWords(Status(StatusCode::kUnavailable, "the monitor is closed"));
  CHECK(server.client().Get("/v1/ranks").value().status == 503);
}

TEST_CASE("ranks that never answer cost a 503 and no time of other clients") {
  TestServer server([](ServerOptions* options) { options->limits.answer_time = 50ms; });
  server.job->holds_ranks = true;
  CHECK(server.client().Get("/v1/ranks").value().status == 503);
  CHECK(server.client().Get("/v1/doctor").value().status == 200);
}

TEST_CASE("the control socket of another rank forwards the requests of the job, and no others") {
  TestServer server;
  TestServer leader;
  leader.job->SetWords(RankWords{{WordOf(0, ReportText(StatusOf(0, 1)))}, ""});
  (void)leader.Path();
  std::string forwarded;
  server.job->forward = [&](const std::string& request, const auto& then) {
    forwarded = request;
    leader.server->AnswerForwarded(1, request, [then](const std::string& answer) { then(answer); });
  };
  server.job->leads = false;
  CHECK(server.GetJson("/v1/ranks")["ranks"].size() == 1);
  CHECK(server.job->Questions().empty());
  CHECK(leader.job->Questions().size() == 1);
  CHECK(Has(forwarded, "\"uid\":" + std::to_string(::geteuid())));
  CHECK(server.client().Get("/v1/status").value().status == 200);
  CHECK(leader.job->Questions().size() == 1);
  const auto body = server.client().Ask("POST", "/v1/dry-run", "\xff");
  CHECK(body.value().status == 400);
  server.job->forward = [](const std::string&, const auto& then) {
    then(Status(StatusCode::kTimedOut, "rank 0 has not answered within 4500 ms"));
  };
  const auto late = server.client().Get("/v1/ranks");
  CHECK(late.value().status == 503);
  CHECK(Has(late.value().body, "rank 0 has not answered"));
}

TEST_CASE(
    "a change is asked at the control socket of any rank, checked there, performed once at rank 0, and signed with the "
    "rank") {
  TestServer server;
  TestServer leader;
  (void)leader.Path();
  leader.job->change_report.outcome = ChangeReport::Outcome::kWritten;
  leader.job->history.directory = "/out/run";
  std::string forwarded;
  server.job->forward = [&](const std::string& request, const auto& then) {
    forwarded = request;
    leader.server->AnswerForwarded(3, request, [then](const std::string& answer) { then(answer); });
  };
  server.job->leads = false;
  const http::ClientRequest apply{
      .method = "POST", .target = "/v1/apply", .body = "{}", .if_match = "", .request_id = "one"};
  for (int i = 0; i < 2; ++i) {
    const auto reply = server.client().Ask(apply);
    REQUIRE(reply.ok());
    CHECK(reply.value().status == 200);
  }
  CHECK(server.job->Changes().empty());
  const std::vector<ConfigChange> changes = leader.job->Changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].text == "{}");
  CHECK(changes[0].peer.uid == ::geteuid());
  CHECK(changes[0].peer.pid == ::getpid());
  CHECK(changes[0].peer.rank == 3);
  // The same id, at the control socket of rank 0 itself.
  CHECK(leader.client().Ask(apply).value().status == 200);
  http::ClientRequest other = apply;
  other.body = "{ }";
  CHECK(server.client().Ask(other).value().status == 422);
  CHECK(leader.job->Changes().size() == 1);
  CHECK(server.GetJson("/v1/history")["directory"] == "/out/run");

  // A request without permission to change this job is not forwarded to rank 0.
  forwarded.clear();
  const Match stop = FindRoute("POST", "/v1/stop");
  base::IoThread worker;
  const auto owner = std::make_shared<int>();
  const Workplace place{server.job, &worker, std::make_shared<RequestLog>(), owner};
  std::promise<int> answered;
  Request request;
  request.target = "/v1/stop";
  request.access = sockets::Access::kRead;
  REQUIRE(AnswerOnWorker(place, *stop.route, request,
                         [&](const http::Answer& answer) { answered.set_value(answer.status); }));
  CHECK(answered.get_future().get() == 403);
  CHECK(forwarded.empty());
}

TEST_CASE("rank 0 performs for other ranks only the requests of the job, and answers any text") {
  TestServer leader;
  (void)leader.Path();
  const auto status_of = [&](const std::string& text) {
    std::promise<std::string> answered;
    leader.server->AnswerForwarded(2, text, [&](const std::string& answer) { answered.set_value(answer); });
    return AnswerFrom(answered.get_future().get()).value().status;
  };
  const auto request = [](const char* method, const char* target) {
    Forwarded forwarded{method, {}};
    forwarded.request.target = target;
    return ForwardText(forwarded).value();
  };
  CHECK(status_of(request("GET", "/v1/ranks")) == 200);
  CHECK(status_of(request("GET", "/v1/status")) == 400);
  CHECK(status_of(request("GET", "/v1/events")) == 400);
  CHECK(status_of(request("POST", "/v1/ranks")) == 405);
  CHECK(status_of(request("GET", "/nowhere")) == 404);
  CHECK(status_of("") == 400);
  CHECK(status_of(std::string(1000000, '{') + "\n") == 400);
  leader.job->leads = false;
  CHECK(status_of(request("GET", "/v1/ranks")) == 400);
}

}  // namespace
}  // namespace stepwatch::control_socket
