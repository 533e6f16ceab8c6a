// Requests that change something: the calls of the job, the answers, and that each request is performed once.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "controller/control_socket/change_routes.h"
#include "controller/control_socket/request_log.h"
#include "src/base/sha256.h"
#include "src/http/answers.h"
#include "src/http/client.h"
#include "src/json/json.h"
#include "src/sockets/peer.h"
#include "tests/control_socket/json_reply.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

using status::ChangeReport;
using status::ConfigChange;
using ChangeOutcome = ChangeReport::Outcome;
using testing::JsonReply;

JsonReply Ask(const TestServer& server, const http::ClientRequest& request) {
  return testing::Send(server.client(), request);
}

http::ClientRequest Post(const std::string& target, const std::string& body = "", const std::string& id = "") {
  return {"POST", target, body, "", id};
}

TEST_CASE("a change reaches the job with its text, its condition and its sender") {
  TestServer server;
  server.job->change_report.outcome = ChangeOutcome::kWritten;
  server.job->change_report.config_path = "/c.json";
  server.job->change_report.method = "exchange";
  server.job->change_report.replaced_sha256 = "aa";
  server.job->change_report.sha256 = "bb";
  server.job->change_report.verdict.kind = status::Verdict::Kind::kArmed;
  server.job->change_report.verdict.plan_id = 3;
  server.job->change_report.verdict.at_step = 41;
  const JsonReply answered = Ask(server, {"POST", "/v1/apply", "{} // as it is\n", "aa", ""});
  CHECK(answered.status == 200);
  CHECK(answered.json == Json({{"version", 1},
                               {"config", "/c.json"},
                               {"outcome", "written"},
                               {"method", "exchange"},
                               {"replaced_sha256", "aa"},
                               {"sha256", "bb"},
                               {"taken", "armed"},
                               {"plan_id", 3},
                               {"at_step", 41}}));
  REQUIRE(Ask(server, Post("/v1/start")).status == 200);
  REQUIRE(Ask(server, Post("/v1/stop")).status == 200);
  REQUIRE(Ask(server, Post("/v1/rollback")).status == 200);
  REQUIRE(Ask(server, Post("/v1/rollback?plan=7", "{}")).status == 200);
  REQUIRE(Ask(server, Post("/v1/rollback", "{\"plan\": 8}")).status == 200);
  REQUIRE(Ask(server, Post("/v1/rollback", "{\"plan\": 8.0}")).status == 200);
  const std::vector<ConfigChange> changes = server.job->Changes();
  REQUIRE(changes.size() == 7);
  CHECK(changes[0].text == "{} // as it is\n");
  CHECK(changes[0].if_match == "aa");
  CHECK(changes[0].peer.uid == ::geteuid());
  CHECK(changes[0].peer.pid == ::getpid());
  std::string self;
  REQUIRE(base::FileSystem::Real().RealPath("/proc/self/exe", &self) == 0);
  CHECK((changes[0].peer.exe == self || changes[0].peer.exe.empty()));  // unknown before Linux 6.5
  CHECK(changes[1].verb == ConfigChange::Verb::kStart);
  CHECK(changes[2].verb == ConfigChange::Verb::kStop);
  CHECK(changes[3].verb == ConfigChange::Verb::kRollback);
  CHECK(changes[3].plan_id == 0);
  CHECK(changes[4].plan_id == 7);
  CHECK(changes[5].plan_id == 8);
  CHECK(changes[6].plan_id == 8);
}

TEST_CASE("a request that a route does not know is refused, and not performed in another way") {
  TestServer server;
  for (const http::ClientRequest& question :
       {Post("/v1/stop?now=1"), Post("/v1/stop", "{}"), Post("/v1/start?at_step=3"), Post("/v1/apply?dry_run=ranks"),
        Post("/v1/rollback?plan="), Post("/v1/rollback?plan=-1"), Post("/v1/rollback?plan=99999999999"),
        Post("/v1/rollback?to=1"), Post("/v1/rollback", "{\"plan\": \"2\"}"), Post("/v1/rollback", "{\"plan\": 2.5}"),
        Post("/v1/rollback?plan=2", "{\"plan\": 2}"), Post("/v1/rollback", "{\"plan\": -1.0}"),
        Post("/v1/rollback", "{\"to\": 2}"), Post("/v1/rollback", "["),
        http::ClientRequest{"GET", "/v1/history?limit=x", "", "", ""},
        http::ClientRequest{"GET", "/v1/history?limit=1000000", "", "", ""}}) {
    const JsonReply answered = Ask(server, question);
    CHECK(answered.status == 400);
    CHECK(answered.json["error"]["code"] == "bad_request");
  }
  CHECK(Ask(server, {"GET", "/v1/apply", "", "", ""}).status == 405);
  CHECK(server.job->Changes().empty());
}

TEST_CASE("a text may be applied without the file, and for a step") {
  TestServer server;
  server.job->change_report.outcome = ChangeOutcome::kOverridden;
  server.job->change_report.replaced_sha256 = "in the file";
  const JsonReply given = Ask(server, {"POST", "/v1/apply?volatile=1", "{}", "", ""});
  CHECK(given.status == 200);
  CHECK(given.json["outcome"] == "given");
  REQUIRE(Ask(server, {"POST", "/v1/apply?volatile=0", "{}", "", ""}).status == 200);
  CHECK(Ask(server, {"POST", "/v1/apply?volatile=2", "{}", "", ""}).status == 400);
  CHECK(Ask(server, {"POST", "/v1/apply?volatile", "{}", "", ""}).status == 400);
  for (const char* query : {"at_step=-1", "at_step=", "at_step=9007199254740993", "at_step=3&at_step=3",
                            "at_step=1&x=2", "volatile=1&volatile=1", "at_step=18446744073709551616", "returns=1",
                            "volatile=0&returns=1", "volatile=1&returns=2", "volatile=1&returns=1&returns=1"})
    CHECK(Ask(server, {"POST", std::string("/v1/apply?") + query, "{}", "", ""}).status == 400);
  REQUIRE(Ask(server, {"POST", "/v1/apply?at_step=400&volatile=1", "{}", "", ""}).status == 200);
  REQUIRE(Ask(server, {"POST", "/v1/apply?volatile=1&returns=1", "{}", "", ""}).status == 200);
  const auto changes = server.job->Changes();
  REQUIRE(changes.size() == 4);
  CHECK(changes[0].is_override);
  CHECK_FALSE(changes[0].returns);
  CHECK(changes[3].is_override);
  CHECK(changes[3].returns);
  CHECK(changes[0].at_step == 0);
  CHECK(!changes[1].is_override);
  CHECK(changes[2].is_override);
  CHECK(changes[2].at_step == 400);
}

TEST_CASE("each refusal has its status, its code and its facts") {
  TestServer server;
  ChangeReport& report = server.job->change_report;
  report.message = "a sentence";
  report.replaced_sha256 = "found";
  const auto ask = [&](ChangeOutcome outcome) {
    report.outcome = outcome;
    return Ask(server, {"POST", "/v1/apply", "{}", "expected", ""});
  };
  const JsonReply conflict = ask(ChangeOutcome::kConflict);
  CHECK(conflict.status == 412);
  CHECK(conflict.json["error"]["code"] == "conflict");
  CHECK(conflict.json["error"]["expected_sha256"] == "expected");
  CHECK(conflict.json["error"]["found_sha256"] == "found");
  CHECK(ask(ChangeOutcome::kEdited).status == 409);
  report.place = {"ops", 2, 10};
  const JsonReply invalid = ask(ChangeOutcome::kInvalid);
  CHECK(invalid.status == 422);
  CHECK(invalid.json["error"] ==
        Json({{"code", "invalid"}, {"key", "ops"}, {"line", 2}, {"column", 10}, {"message", "a sentence"}}));
  const JsonReply unwritable = ask(ChangeOutcome::kUnwritable);
  CHECK(unwritable.status == 409);
  CHECK(unwritable.json["error"]["code"] == "unwritable");
  CHECK(Has(unwritable.json["error"]["message"].get<std::string>(), "as its owner"));
  CHECK(ask(ChangeOutcome::kNoOldConfig).status == 404);
  CHECK(ask(ChangeOutcome::kStatic).json["error"]["code"] == "static");
  CHECK(ask(ChangeOutcome::kNotReader).json["error"]["code"] == "not_reader");
  CHECK(ask(ChangeOutcome::kNotReady).status == 503);
}

TEST_CASE("a request with an id is performed once, and gives the same answer again") {
  TestServer server;
  server.job->change_report.outcome = ChangeOutcome::kWritten;
  server.job->change_report.verdict.plan_id = 1;
  const JsonReply first = Ask(server, Post("/v1/apply", "{}", "one"));
  server.job->change_report.verdict.plan_id = 2;
  const JsonReply again = Ask(server, Post("/v1/apply", "{}", "one"));
  CHECK(again.json == first.json);
  CHECK(server.job->Changes().size() == 1);
  for (const http::ClientRequest& other : {Post("/v1/apply", "{ }", "one"), Post("/v1/start", "", "one"),
                                           http::ClientRequest{"POST", "/v1/apply", "{}", "aa", "one"}}) {
    const JsonReply reused = Ask(server, other);
    CHECK(reused.status == 422);
    CHECK(reused.json["error"]["code"] == "request_id_reused");
  }
  CHECK(Ask(server, Post("/v1/apply", "{}", "two")).json["plan_id"] == 2);
  CHECK(Ask(server, Post("/v1/apply", "{}", std::string(201, 'x'))).status == 400);
  CHECK(server.job->Changes().size() == 2);
}

TEST_CASE("two at once with one id are one request") {
  const auto log = std::make_shared<RequestLog>();
  std::vector<OnAnswer> begun;
  std::vector<int> statuses;
  for (int i = 0; i < 2; ++i)
    log->Perform(
        "same", "digest", [&](const http::Answer& answer) { statuses.push_back(answer.status); },
        [&](OnAnswer finish) { begun.push_back(std::move(finish)); });
  CHECK(statuses.empty());
  REQUIRE(begun.size() == 1);
  begun.front()(http::Answer());
  CHECK(statuses == std::vector<int>{200, 200});
}

TEST_CASE("a client that is too early repeats its request with the same id for the answer") {
  TestServer server([](ServerOptions* options) { options->limits.answer_time = 20ms; });
  server.job->holds_changes = true;
  server.job->change_report.outcome = ChangeOutcome::kWritten;
  const JsonReply late = Ask(server, Post("/v1/apply", "{}", "slow"));
  CHECK(late.status == 503);
  CHECK(Has(late.json["error"]["message"].get<std::string>(), "Idempotency-Key"));
  server.job->Release();
  CHECK(Ask(server, Post("/v1/apply", "{}", "slow")).status == 200);
  CHECK(server.job->Changes().size() == 1);
}

TEST_CASE("a request that is lost, or is to be tried again, leaves its id free") {
  TestServer server;
  server.job->holds_changes = true;
  JsonReply lost;
  std::thread asker([&] { lost = Ask(server, Post("/v1/apply", "{}", "id")); });
  REQUIRE(Eventually([&] { return server.job->Changes().size() == 1; }));
  server.job->Lose();
  asker.join();
  CHECK(lost.status == 503);
  server.job->holds_changes = false;
  server.job->change_report.outcome = ChangeOutcome::kNotReady;
  CHECK(Ask(server, Post("/v1/apply", "{}", "id")).status == 503);
  server.job->change_report.outcome = ChangeOutcome::kWritten;
  CHECK(Ask(server, Post("/v1/apply", "{}", "id")).status == 200);
  CHECK(server.job->Changes().size() == 3);
}

TEST_CASE("of the answers the last ones are kept") {
  const auto log = std::make_shared<RequestLog>();
  int performed = 0;
  const auto perform = [&](int id) {
    log->Perform(
        std::to_string(id), "digest", [](const http::Answer&) {},
        [&](const OnAnswer& finish) {
          ++performed;
          finish(http::Answer());
        });
  };
  for (int id = 0; id <= static_cast<int>(RequestLog::kAnswersMax); ++id) perform(id);
  const int all = performed;
  perform(1);
  CHECK(performed == all);
  perform(0);
  CHECK(performed == all + 1);
}

TEST_CASE("only so many changes are under way, and a repeated request is answered nevertheless") {
  const auto log = std::make_shared<RequestLog>();
  std::vector<OnAnswer> under_way;
  const auto begin = [&](OnAnswer finish) { under_way.push_back(std::move(finish)); };
  const size_t max = RequestLog::kUnderWayMax;
  std::vector<int> statuses(max, 0);
  for (size_t i = 0; i < max; ++i) {
    const OnAnswer then = [&statuses, i](const http::Answer& answer) { statuses[i] = answer.status; };
    if (i % 2 == 0)
      log->Perform(std::to_string(i), "", then, begin);
    else
      log->Perform(then, begin);
  }
  REQUIRE(under_way.size() == max);
  int refused = 0, asked = 0;
  log->Perform(
      "new", "", [&](const http::Answer& answer) { refused += answer.status; }, begin);
  log->Perform([&](const http::Answer& answer) { refused += answer.status; }, begin);
  CHECK(refused == 2 * 503);
  log->Perform(
      "0", "", [&](const http::Answer& answer) { asked = answer.status; }, begin);
  CHECK(under_way.size() == max);
  under_way.front()(http::Answer());
  CHECK(statuses.front() == 200);
  CHECK(asked == 200);
  under_way.clear();
  CHECK(statuses.back() == 503);  // nobody has an answer any more
  log->Perform([](const http::Answer&) {}, begin);
  CHECK(under_way.size() == 1);
}

TEST_CASE("a stop begins however many changes are under way, also while the worker waits") {
  TestServer server;
  server.job->change_report.outcome = ChangeOutcome::kWritten;
  server.job->holds_latest = true;
  server.job->holds_changes = true;
  const http::Client client = server.client();
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) others.emplace_back([&] { (void)client.Get("/v1/latest/grad_reduced"); });
  REQUIRE(Eventually([&] { return server.job->latest_asked > 0; }));
  for (int i = 0; i < RequestLog::kUnderWayMax + 2; ++i)
    others.emplace_back([&] { (void)client.Ask("POST", "/v1/start", ""); });
  int status = 0;
  std::thread stop([&] { status = client.Ask("POST", "/v1/stop", "").value().status; });
  CHECK(Eventually([&] {
    const std::vector<ConfigChange> changes = server.job->Changes();
    return std::any_of(changes.begin(), changes.end(),
                       [](const ConfigChange& change) { return change.verb == ConfigChange::Verb::kStop; });
  }));
  server.job->holds_changes = false;
  server.job->holds_latest = false;
  server.job->Release();
  stop.join();
  for (std::thread& other : others) other.join();
  CHECK(status == 200);
}

TEST_CASE("a control socket that admits readers lets the owner alone change anything") {
  const auto log = std::make_shared<RequestLog>();
  FakeJob job;
  job.change_report.outcome = ChangeOutcome::kWritten;
  const Route& start = *FindRoute("POST", "/v1/start").route;
  const auto ask = [&](sockets::Access access) {
    Request request;
    request.access = access;
    int status = 0;
    BeginRequest(start, request, job, *log, [&](const http::Answer& answer) { status = answer.status; });
    return status;
  };
  CHECK(ask(sockets::Access::kNone) == 403);
  CHECK(ask(sockets::Access::kRead) == 403);
  CHECK(job.Changes().empty());
  CHECK(ask(sockets::Access::kAll) == 200);
}

TEST_CASE("a history has its newest lines last, and a config is sent byte for byte") {
  TestServer server;
  server.job->history.directory = "/out/run";
  for (int i = 1; i <= 3; ++i) {
    output::HistoryLine line;
    line.outcome = "applied";
    line.plan_id = static_cast<PlanId>(i);
    line.peer = output::EditPeer{1000, 7, "/bin/x", 3};
    server.job->history.history.lines.push_back(line);
  }
  const Json shown = server.GetJson("/v1/history?limit=2");
  CHECK(shown["directory"] == "/out/run");
  CHECK(shown["lines_in_all"] == 3);
  REQUIRE(shown["lines"].size() == 2);
  CHECK(shown["lines"][0]["plan_id"] == 2);
  CHECK(shown["lines"][1]["plan_id"] == 3);
  CHECK(shown["lines"][1]["peer"] == Json({{"uid", 1000}, {"pid", 7}, {"exe", "/bin/x"}, {"rank", 3}}));
  server.job->kept_text = "{} // \xff\n";
  server.job->kept_sha256 = base::Sha256Hex(server.job->kept_text);
  CHECK(server.client().Get("/v1/configs/" + server.job->kept_sha256).value().body == server.job->kept_text);
  CHECK(server.client().Get("/v1/configs/" + std::string(64, '0')).value().status == 404);
  CHECK(server.client().Get("/v1/configs/..%2fx").value().status == 404);
  server.job->history.status = Status(StatusCode::kNotFound, "none yet");
  CHECK(server.client().Get("/v1/history").value().status == 404);
}

TEST_CASE("the stream of events names the sender of the bytes") {
  TestServer server;
  Event event;
  event.kind = EventKind::kSeen;
  server.job->events.Add(event, output::EditPeer{1000, -1, "", -1});
  server.job->events.Add(event);
  std::vector<Json> events;
  (void)server.client().Follow(0, [&events](const std::string&, const std::string& data) {
    events.push_back(json::Parse(data).value());
    return events.size() < 2;
  });
  REQUIRE(events.size() == 2);
  CHECK(events[0]["peer"] == Json({{"uid", 1000}, {"pid", nullptr}, {"exe", nullptr}, {"rank", nullptr}}));
  CHECK_FALSE(events[1].contains("peer"));
}

}  // namespace
}  // namespace stepwatch::control_socket
