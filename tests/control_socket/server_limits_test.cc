// Clients with bad intentions, at no cost for the others.
#include "src/base/free_descriptors.h"
#include "src/http/client.h"
#include "src/sockets/acceptor.h"
#include "src/sockets/peer.h"
#include "tests/control_socket/test_server.h"
#include "tests/low_descriptor_limit.h"

namespace stepwatch::control_socket {
namespace {

using status::ChangeReport;
using status::ConfigChange;
using testing::LowDescriptorLimit;

TEST_CASE("a client that connects and sends nothing is disconnected, and the others are answered") {
  TestServer server([](ServerOptions* options) { options->limits.idle_time = 50ms; });
  RawClient silent(server.Path());
  CHECK(server.client().Get("/v1/status").value().status == 200);
  CHECK(silent.ReceiveAll().empty());
}

TEST_CASE("a client that sends a byte now and then has the time for one header and no more") {
  TestServer server([](ServerOptions* options) { options->limits.header_time = 100ms; });
  RawClient slow(server.Path());
  std::atomic<bool> ends{false};
  std::thread dripping([&] {
    for (const char c : std::string(10000, 'G')) {
      if (ends || !slow.Send({c})) return;
      std::this_thread::sleep_for(10ms);
    }
  });
  const std::string answer = slow.ReceiveAll();
  ends = true;
  dripping.join();
  CHECK(answer.starts_with("HTTP/1.1 408"));
  CHECK(Has(answer, "not complete within 100 ms"));
}

TEST_CASE("a body that does not come is not waited for without end") {
  TestServer server([](ServerOptions* options) { options->limits.body_time = 50ms; });
  RawClient slow(server.Path());
  REQUIRE(slow.Send("POST /v1/validate HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"));
  CHECK(Has(slow.ReceiveAll(), "\"code\":\"timeout\""));
}

TEST_CASE("garbage is answered with 400") {
  TestServer server;
  for (const std::string& garbage :
       {std::string("\x16\x03\x01 this is TLS\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("\0\0\0\0\r\n\r\n", 8),
        std::string("POST /v1/validate HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("POST /v1/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")}) {
    RawClient visitor(server.Path());
    REQUIRE(visitor.Send(garbage));
    const std::string answer = visitor.ReceiveAll();
    CHECK(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    CHECK(Has(answer, "\"code\":\"bad_request\""));
  }
  CHECK(server.client().Get("/v1/status").value().status == 200);
}

TEST_CASE("a header that is too long is refused before it is whole") {
  TestServer server;
  RawClient visitor(server.Path());
  (void)visitor.Send("GET /v1/status HTTP/1.1\r\nX: " + std::string(20 << 10, 'x'));
  CHECK(visitor.ReceiveAll().starts_with("HTTP/1.1 431"));
}

TEST_CASE("a body that is too large is refused, announced or not, and its sender reads why") {
  TestServer server;
  const std::string large(3 << 20, ' ');
  const Result<http::Reply> announced = server.client().Ask("POST", "/v1/validate", large);
  REQUIRE(announced.status().ToString() == "ok");
  CHECK(announced.value().status == 413);
  CHECK(Has(announced.value().body, "1048576 bytes"));
  RawClient visitor(server.Path());
  REQUIRE(visitor.Send("POST /v1/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n"));
  (void)visitor.Send(large);
  CHECK(visitor.ReceiveAll().starts_with("HTTP/1.1 413"));
  // As large as it may be.
  CHECK(server.client().Ask("POST", "/v1/validate", "{}" + std::string((1 << 20) - 2, ' ')).value().status == 200);
}

// A control socket with room for three connections, which three readers of events take.
struct FullServer {
  FullServer() {
    for (int i = 0; i < 3; ++i) {
      guests.push_back(std::make_unique<RawClient>(path));
      REQUIRE(guests.back()->Send("GET /v1/events HTTP/1.1\r\n\r\n"));
      guests.back()->ReceiveUntil("\r\n\r\n");
    }
  }

  TestServer server{[](ServerOptions* options) {
    options->limits.connections = 3;
    options->limits.linger_time = 500ms;
  }};
  const std::string path = server.Path();
  std::vector<std::unique_ptr<RawClient>> guests;
};

TEST_CASE("as many connections as there may be are served, one more is answered with the time to retry") {
  FullServer full;
  RawClient late(full.path);
  (void)late.Send("GET /v1/status HTTP/1.1\r\n\r\n");
  const std::string answer = late.ReceiveAll();
  CHECK(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
  CHECK(Has(answer, "Retry-After: 1\r\n"));
  full.guests.pop_back();
  CHECK(Eventually([&] { return full.server.client().Get("/v1/status").value().status == 200; }));
}

TEST_CASE("a stop gets through where all connections are taken") {
  FullServer full;
  full.server.job->change_report.outcome = ChangeReport::Outcome::kWritten;
  CHECK(full.server.client().Ask("POST", "/v1/start", "").value().status == 503);
  CHECK(full.server.client().Ask("POST", "/v1/stop", "").value().status == 200);
  const std::vector<ConfigChange> changes = full.server.job->Changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().verb == ConfigChange::Verb::kStop);
}

TEST_CASE("a connection that waits for nothing makes room for the next one") {
  TestServer server([](ServerOptions* options) { options->limits.connections = 3; });
  std::vector<std::unique_ptr<RawClient>> guests;
  for (int i = 0; i < 6; ++i) {
    guests.push_back(std::make_unique<RawClient>(server.Path()));
    REQUIRE(guests.back()->Send("GET /v1/status HTTP/1.1\r\n\r\n"));
    CHECK(Has(guests.back()->ReceiveUntil("\"version\":1"), " 200 "));
  }
  (void)guests.front()->ReceiveAll();  // ends with the connection
}

TEST_CASE(
    "of users without access few connections are kept, each is answered with the reason, and the oldest goes first") {
  TestServer server([](ServerOptions* options) {
    options->limits.strangers = 3;
    options->limits.linger_time = 60s;
    options->credentials_of = [](int) { return std::optional<sockets::Peer>(sockets::Peer{1, ::geteuid() + 1}); };
  });
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 20; ++i) crowd.push_back(std::make_unique<RawClient>(server.Path()));
  for (int i = 0; i < 17; ++i) {
    const std::string answer = crowd[static_cast<size_t>(i)]->ReceiveAll();
    CHECK(answer.starts_with("HTTP/1.1 403"));
    CHECK_FALSE(Has(answer, "nothing for"));
  }
}

TEST_CASE("a thousand connections at once are each answered or turned away, and then the control socket is as before") {
  TestServer server([](ServerOptions* options) { options->limits.linger_time = 20ms; });
  const std::string path = server.Path();
  const size_t descriptors = testing::EntriesOf("/proc/self/fd");
  int answered = 0, turned_away = 0;
  {
    std::vector<std::unique_ptr<RawClient>> crowd;
    for (int i = 0; i < 1000; ++i) {
      crowd.push_back(std::make_unique<RawClient>(path));
      (void)crowd.back()->Send("GET /v1/status HTTP/1.1\r\nConnection: close\r\n\r\n");
    }
    for (const auto& visitor : crowd) {
      const std::string answer = visitor->ReceiveAll();
      answered += answer.starts_with("HTTP/1.1 200") ? 1 : 0;
      turned_away += answer.starts_with("HTTP/1.1 503") ? 1 : 0;
    }
  }
  CHECK(answered + turned_away == 1000);
  CHECK(answered > 0);
  CHECK(Eventually([&] { return server.client().Get("/v1/status").value().status == 200; }));
  CHECK(Eventually([&] { return testing::EntriesOf("/proc/self/fd") <= descriptors; }));
}

TEST_CASE("a client that never reads its answer is disconnected") {
  TestServer server([](ServerOptions* options) { options->limits.send_time = 100ms; });
  status::JobStatus status;
  status.config_path = std::string(4 << 20, 'x');  // more than a socket holds
  server.job->SetStatus(status);
  RawClient deaf(server.Path());
  REQUIRE(deaf.Send("GET /v1/status HTTP/1.1\r\n\r\n"));
  const RawClient another(server.Path());
  // The end comes before all of it has.
  REQUIRE(Eventually([&] { return !deaf.Send("\r\n"); }));
  CHECK(deaf.ReceiveAll().size() < status.config_path.size());
}

TEST_CASE("clients of a control socket leave a process with few descriptors what it needs") {
  for (const rlim_t limit : {rlim_t{128}, rlim_t{256}}) {
    INFO(limit << " descriptors");
    const LowDescriptorLimit low(limit);
    TestServer server;
    const std::string path = server.Path();
    std::vector<std::unique_ptr<RawClient>> crowd;
    for (rlim_t i = 0; i < limit / 4; ++i) crowd.push_back(std::make_unique<RawClient>(path));
    CHECK(server.client().Get("/v1/status").value().status == 200);
    CHECK(base::FreeDescriptors(limit) >= sockets::DescriptorReserve());
  }
}

TEST_CASE("silent connections make room for files that the process opens") {
  const LowDescriptorLimit low(128);
  TestServer server;
  RawClient silent(server.Path());
  REQUIRE(silent.Send("GET /v1/status HTTP/1.1\r\n\r\n"));
  CHECK(Has(silent.ReceiveUntil("\"version\":1"), "200 OK"));
  std::vector<base::UniqueFd> files;
  while (base::FreeDescriptors(128) >= sockets::DescriptorReserve()) files.emplace_back(::dup(silent.fd()));
  CHECK_FALSE(Has(silent.ReceiveAll(), "nothing for"));
}

}  // namespace
}  // namespace stepwatch::control_socket
