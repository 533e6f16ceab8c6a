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
#include "tests/sockets/token.h"

namespace stepwatch::operations {
namespace {

// Takes what comes, and knows nothing.
class FakeService final : public Service {
 public:
  void Later(std::function<void()> work) override { work(); }
  double t() const override { return 1000; }
  void Take(std::vector<Line> lines, std::function<void()> then) override {
    taken += static_cast<int64_t>(lines.size());
    then();
  }
  bool IsBehind() const override { return is_behind; }
  void CountRefused(int64_t lines) override { refused += lines; }
  std::vector<RunSnapshot> Runs() const override { return {}; }
  std::optional<RunSnapshot> Run(std::string_view) const override { return std::nullopt; }
  std::vector<std::string> RunsOfStore() const override { return {}; }
  std::optional<std::string> RunOfStore(std::string_view) const override { return std::nullopt; }
  void SeriesNames(const std::string&, std::function<void(std::vector<std::string>)> then) override { then({}); }
  void SeriesOf(const std::string&, const std::string&, std::function<void(std::vector<SeriesPoint>)> then) override {
    then({});
  }
  IncidentRegistry& incidents() override { return incidents_; }
  void ChangesOf(const std::string&, std::function<void(std::vector<StoredChange>)> then) override { then({}); }
  bool Acknowledge(const std::string&, const Acknowledgement&, std::function<void()>) override { return false; }
  bool AddSilence(const Silence& silence, std::function<void()> then) override {
    const bool is_added = incidents_.Add(silence);
    if (is_added) then();
    return is_added;
  }
  bool RemoveSilence(const std::string& id, std::function<void()> then) override {
    const bool is_removed = incidents_.RemoveSilence(id);
    if (is_removed) then();
    return is_removed;
  }
  DaemonCounts Counts() const override { return {}; }
  void Targets(bool with_own, bool with_jobs, std::function<void(std::string json)> then) override {
    then(std::string(with_own ? "own" : "") + (with_jobs ? "jobs" : ""));
  }
  void OtherMetrics(http::MetricsFormat, std::function<void(std::string page)> then) override { then({}); }
  Status Ready() const override { return Status(); }

  bool is_behind = false;
  int64_t taken = 0;
  int64_t refused = 0;

 private:
  IncidentRegistry incidents_;
};

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
