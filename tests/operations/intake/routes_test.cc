#include "operations/intake/routes.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <vector>

#include "operations/intake/server.h"
#include "src/http/answers.h"
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
