#include "operations/intake/routes.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "operations/intake/server.h"
#include "src/http/answers.h"
#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/control_socket/test_server.h"
#include "tests/operations/intake/fake_service.h"
#include "tests/sockets/token.h"

namespace stepwatch::operations {
namespace {

http::Answer Ask(FakeService* service, const std::string& method, const std::string& target, const std::string& body,
                 bool may_write = true) {
  std::optional<http::Answer> answer;
  AnswerIntake({method, target, body, "", may_write}, service, [&](http::Answer given) { answer = std::move(given); });
  REQUIRE(answer);
  return *answer;
}

constexpr const char* kBeat = R"({"t":1,"run":"r1","rank":0,"beat":{"step":1}})";

TEST_CASE("a service that is behind rejects lines for some seconds") {
  FakeService service;
  service.is_behind = true;
  const http::Answer later = Ask(&service, "POST", "/v1/beats", kBeat);
  CHECK(later.status == 429);
  CHECK(later.retry_after > 0);
  CHECK(later.body.find("too many lines waiting") != std::string::npos);
  CHECK(service.taken == 0);
  // Requests that only read are still answered.
  CHECK(Ask(&service, "GET", "/v1/runs", "").status == 200);

  service.is_behind = false;
  CHECK(Ask(&service, "POST", "/v1/beats", kBeat).status == 200);
  CHECK(service.taken == 1);
}

TEST_CASE("a reader changes nothing by any request") {
  FakeService service;
  for (const auto& [method, target] : {std::pair("POST", "/v1/beats"), std::pair("POST", "/v1/silences"),
                                       std::pair("DELETE", "/v1/silences/x"), std::pair("POST", "/v1/incidents/x/ack")})
    CHECK(Ask(&service, method, target, "{}", false).status == 403);
  CHECK(Ask(&service, "GET", "/v1/silences", "", false).status == 200);
  CHECK(service.taken == 0);
}

TEST_CASE("there are only so many silences") {
  FakeService service;
  const std::string body = R"({"seconds":60})";
  for (size_t i = 0; i < IncidentRegistry::kSilencesMax; ++i)
    REQUIRE(Ask(&service, "POST", "/v1/silences", body).status == 200);
  CHECK(Ask(&service, "POST", "/v1/silences", body).status == 409);
}

class FakeDeliveries final : public Deliveries {
 public:
  http::Answer List(size_t limit) const override { return http::JsonAnswer({{"limit", limit}}); }
  void Notify(const std::string& receiver, const std::string& body, http::OnAnswer then) override {
    then(http::JsonAnswer({{"receiver", receiver}, {"bytes", body.size()}}));
  }
  bool HasLinks() const override { return has_links; }
  void AnswerLink(const LinkCall& call, http::OnAnswer then) override {
    then(http::JsonAnswer({{"acknowledges", call.acknowledges}, {"parts", call.parts}}));
  }

  bool has_links = false;
};

TEST_CASE("messages are listed, alerts passed on, and links answered while there are links") {
  FakeService service;
  CHECK(Ask(&service, "GET", "/v1/deliveries", "").status == 404);
  CHECK(Ask(&service, "POST", "/v1/notify/chat", "").status == 404);
  CHECK(Ask(&service, "GET", "/v1/acknowledge/i/1/s", "").status == 404);
  FakeDeliveries deliveries;
  service.messages = &deliveries;
  CHECK(Ask(&service, "GET", "/v1/deliveries", "").body.find("100") != std::string::npos);
  CHECK(Ask(&service, "GET", "/v1/deliveries?limit=7", "").body.find("7") != std::string::npos);
  for (const char* wrong : {"limit=0", "limit=1001", "limit=x", "most=1"})
    CHECK(Ask(&service, "GET", std::string("/v1/deliveries?") + wrong, "").status == 400);
  CHECK(Ask(&service, "POST", "/v1/notify/chat", "{}").body.find("chat") != std::string::npos);
  CHECK(Ask(&service, "POST", "/v1/notify/chat", "{}", false).status == 403);
  CHECK(Ask(&service, "GET", "/v1/acknowledge/i/1/s", "").status == 404);
  deliveries.has_links = true;
  CHECK(Ask(&service, "GET", "/v1/acknowledge/i/1/s", "").body.find("false") != std::string::npos);
  CHECK(Ask(&service, "POST", "/v1/acknowledge/a%2Fb/1/s", "").body.find("a/b") != std::string::npos);
  CHECK(IsLink("/v1/acknowledge/i/1/s?x"));
  CHECK_FALSE(IsLink("/v1/acknowledge/i/1"));
  CHECK_FALSE(IsLink("/v1/runs"));
}

logs::Record Logged(const std::string& message, double t, logs::Level level, int64_t rank) {
  logs::Record record;
  record.message = message;
  record.t = t;
  record.level = level;
  record.rank = rank;
  return record;
}

std::vector<std::string> MessagesIn(const http::Answer& answer) {
  REQUIRE(answer.status == 200);
  const Result<Json> json = json::Parse(answer.body);
  REQUIRE(json.ok());
  std::vector<std::string> messages;
  for (const Json& each : json.value()["events"]) messages.push_back(each["message"]);
  return messages;
}

TEST_CASE("kept records of a run are answered by rank, time, level, text and number, the newest last") {
  FakeService service;
  for (int i = 0; i < 6; ++i)
    service.events.Add("r1", Logged("event " + std::to_string(i), 100 + i,
                                    i % 2 == 0 ? logs::Level::kWarning : logs::Level::kError, i % 3));
  service.events.Add("", Logged("of the machine", 100, logs::Level::kError, 0));
  using Messages = std::vector<std::string>;
  const auto ask = [&service](const std::string& query) {
    return MessagesIn(Ask(&service, "GET", "/v1/runs/r1/logs" + query, ""));
  };
  CHECK(ask("").size() == 6);
  CHECK(ask("?rank=1") == Messages{"event 1", "event 4"});
  CHECK(ask("?since=103.5") == Messages{"event 4", "event 5"});
  CHECK(ask("?severity=error") == Messages{"event 1", "event 3", "event 5"});
  CHECK(ask("?grep=event%20%5B02%5D$") == Messages{"event 0", "event 2"});
  CHECK(ask("?limit=2") == Messages{"event 4", "event 5"});
  CHECK(ask("?limit=2&rank=0&severity=warning") == Messages{"event 0", "event 3"});
  CHECK(MessagesIn(Ask(&service, "GET", "/v1/logs", "")) == Messages{"of the machine"});
  CHECK(Ask(&service, "GET", "/v1/runs/r1/logs?limit=2", "").body.find("\"has_more\":true") != std::string::npos);
  CHECK(Ask(&service, "GET", "/v1/runs/r1/logs?limit=6", "").body.find("\"has_more\":false") != std::string::npos);
}

TEST_CASE("a search of logs names the parameter that is unusable, and an unknown run") {
  FakeService service;
  service.events.Add("r1", Logged("x", 1, logs::Level::kError, 0));
  for (const auto& [query, part] :
       {std::pair("rank=-1", "rank must be a whole number from 0, not -1"),
        std::pair("since=10m", "since must be a time"), std::pair("severity=loud", "not loud"),
        std::pair("grep=a%28b", "grep: \\\"a(b\\\" is not a regular"), std::pair("limit=0", "limit must be"),
        std::pair("limit=10001", "limit must be"), std::pair("ranks=1", "unknown")}) {
    const http::Answer answer = Ask(&service, "GET", std::string("/v1/runs/r1/logs?") + query, "");
    CHECK(answer.status == 400);
    CAPTURE(answer.body);
    CHECK(answer.body.find(part) != std::string::npos);
  }
  CHECK(Ask(&service, "GET", "/v1/runs/other/logs", "").status == 404);
}

TEST_CASE("the files of a run are named, also before a record of it is kept") {
  FakeService service;
  service.log_files = {{"/logs/rank_3.log", 3}, {"/logs/\xff", std::nullopt}};
  const http::Answer answer = Ask(&service, "GET", "/v1/runs/logged/logs", "");
  CHECK(MessagesIn(answer).empty());
  const Json files = json::Parse(answer.body).value()["files"];
  CHECK(files[0] == Json{{"path", "/logs/rank_3.log"}, {"rank", 3}});
  CHECK(files[1]["rank"].is_null());
}

TEST_CASE("few clients without the token are kept by stepwatchd, and one that shows it is answered") {
  const testing::TemporaryDirectory directory;
  testing::WriteInPlace(directory / "token", sockets::kToken);
  REQUIRE(::chmod((directory / "token").c_str(), 0600) == 0);
  FakeService service;
  boost::asio::io_context loop;
  IntakeOptions options;
  options.socket = directory / "stepwatchd.sock";
  options.tcp = {"127.0.0.1:0", directory / "token", ""};
  options.limits.strangers = 3;
  Intake intake(loop, options, &service);
  REQUIRE(intake.Open().ok());
  const sockets::RawClient::Tcp tcp{intake.tcp_address()};
  std::vector<std::unique_ptr<sockets::RawClient>> crowd;
  for (int i = 0; i < 20; ++i) crowd.push_back(std::make_unique<sockets::RawClient>(tcp));
  const auto shown_out = [&] {
    loop.restart();
    loop.poll();
    return std::count_if(crowd.begin(), crowd.end(), [](const auto& visitor) {
      pollfd end{visitor->fd(), POLLRDHUP, 0};
      return ::poll(&end, 1, 0) == 1;
    });
  };
  CHECK(testing::Eventually([&] { return shown_out() >= 17; }));
  CHECK(intake.connections() == 3);
  sockets::RawClient client(tcp);
  REQUIRE(
      client.Send("GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + sockets::kToken + "\r\n\r\n"));
  CHECK(testing::Eventually([&] {
    loop.restart();
    loop.poll();
    pollfd answer{client.fd(), POLLIN, 0};
    return ::poll(&answer, 1, 0) == 1;
  }));
  CHECK(client.ReceiveUntil("\r\n").starts_with("HTTP/1.1 200"));
  intake.Close();
  loop.restart();
  loop.poll();
}

}  // namespace
}  // namespace stepwatch::operations
