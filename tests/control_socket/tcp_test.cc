// The control socket on TCP: open for clients that present the token, and for no others.
#include <sys/wait.h>

#include <algorithm>

#include "src/sockets/peer.h"
#include "tests/control_socket/test_server.h"
#include "tests/sockets/token.h"

namespace stepwatch::control_socket {
namespace {

struct TcpTestServer {
  explicit TcpTestServer(const std::function<void(ServerOptions*)>& change = {}) {
    WriteToken(sockets::kToken);
    server = std::make_unique<TestServer>([&](ServerOptions* options) {
      options->tcp = {"127.0.0.1:0", path, "node7"};
      if (change) change(options);
    });
  }
  void WriteToken(const std::string& token) const {
    testing::WriteInPlace(path + ".new", token);
    REQUIRE(::chmod((path + ".new").c_str(), 0600) == 0);
    REQUIRE(::rename((path + ".new").c_str(), path.c_str()) == 0);
  }
  std::string Address() const {
    REQUIRE(Eventually([&] { return !server->server->tcp_address().empty(); }));
    return server->server->tcp_address();
  }
  std::string Ask(const std::string& header, const std::string& request = "GET /v1/status") const {
    RawClient visitor(RawClient::Tcp{Address()});
    REQUIRE(visitor.Send(request + " HTTP/1.1\r\n" + header + "Connection: close\r\n\r\n"));
    return visitor.ReceiveAll();
  }

  testing::TemporaryDirectory directory;
  const std::string path = directory / "token";
  std::unique_ptr<TestServer> server;
};

const std::string kGood = "Host: 127.0.0.1\r\nAuthorization: Bearer " + sockets::kToken + "\r\n";

TEST_CASE("the token opens the control socket on TCP, whose address is noted once") {
  const TcpTestServer tcp;
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(tcp.Address().starts_with("127.0.0.1:"));
  REQUIRE(tcp.server->Notes().size() == 1);
  CHECK(tcp.server->Notes()[0] ==
        "the control socket is open on TCP at " + tcp.Address() + " for clients that present the token");
}

TEST_CASE("each request of a connection presents the token") {
  const TcpTestServer tcp;
  RawClient visitor(RawClient::Tcp{tcp.Address()});
  REQUIRE(
      visitor.Send("GET /v1/status HTTP/1.1\r\n" + kGood + "\r\nGET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  CHECK(Has(visitor.ReceiveUntil("401 Unauthorized"), "200 OK"));
}

TEST_CASE("the Unix socket requires no token, and TCP no uid") {
  const TcpTestServer tcp([](ServerOptions* options) {
    options->credentials_of = [](int) { return std::optional<sockets::Peer>(sockets::Peer{1, ::geteuid() + 1}); };
  });
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200"));
  RawClient visitor(tcp.server->Path());
  REQUIRE(visitor.Send("GET /v1/status HTTP/1.1\r\n" + kGood + "\r\n"));
  CHECK(visitor.ReceiveAll().starts_with("HTTP/1.1 403"));
}

TEST_CASE("a new token ends the connections of the old one, and a token that is gone closes the control socket") {
  const TcpTestServer tcp;
  RawClient reader(RawClient::Tcp{tcp.Address()});
  REQUIRE(reader.Send("GET /v1/events HTTP/1.1\r\n" + kGood + "\r\n"));
  CHECK(Has(reader.ReceiveUntil("\r\n\r\n"), "200 OK"));
  const std::string next(32, 'n');
  tcp.WriteToken(next);
  CHECK_FALSE(Has(reader.ReceiveAll(), "nothing for"));
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 401"));
  CHECK(tcp.Ask("Host: localhost\r\nAuthorization: Bearer " + next + "\r\n").starts_with("HTTP/1.1 200"));
  REQUIRE(::unlink(tcp.path.c_str()) == 0);
  REQUIRE(Eventually([&] { return tcp.server->server->tcp_address().empty(); }));
  CHECK(
      Has(tcp.server->Notes().back(), "the control socket is not open on TCP at 127.0.0.1:0: cannot open " + tcp.path));
  CHECK(tcp.server->client().Get("/v1/status").value().status == 200);
  tcp.WriteToken(sockets::kToken);
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200"));
}

TEST_CASE("an address that is invalid, wildcard or taken is one note, and the Unix socket is there") {
  const TcpTestServer first;
  for (const auto& [address, why] :
       std::vector<std::pair<std::string, std::string>>{{"9464", "is not an address and port"},
                                                        {"127.0.0.1", "is not an address and port"},
                                                        {"127.0.0.1:99999", "is not an address and port"},
                                                        {"127.0.0.1:-1", "is not an address and port"},
                                                        {"127.0.0.1:80x", "is not an address and port"},
                                                        {"::1:80", "is not an address and port"},
                                                        {"node7:9464", "is not an address and port"},
                                                        {"0.0.0.0:9464", "stands for every address"},
                                                        {"[::]:9464", "stands for every address"},
                                                        {"[::ffff:0.0.0.0]:9464", "stands for every address"},
                                                        {first.Address(), "cannot bind " + first.Address()}}) {
    const TcpTestServer tcp([&, wanted = address](ServerOptions* options) { options->tcp.address = wanted; });
    CHECK(tcp.server->client().Get("/v1/status").value().status == 200);
    REQUIRE(Eventually([&] { return tcp.server->job->ticks > 3; }));
    REQUIRE(tcp.server->Notes().size() == 1);
    CHECK(Has(tcp.server->Notes()[0], why));
    CHECK(tcp.server->server->tcp_address().empty());
  }
}

TEST_CASE("an address that was taken is had once it is free") {
  auto first = std::make_unique<TcpTestServer>();
  const std::string address = first->Address();
  const TcpTestServer second([&](ServerOptions* options) { options->tcp.address = address; });
  REQUIRE(Eventually([&] { return second.server->Notes().size() == 1; }));
  first.reset();
  CHECK(second.Address() == address);
  CHECK(second.Ask(kGood).starts_with("HTTP/1.1 200"));
}

TEST_CASE("without a file for the token there is no control socket on TCP") {
  const TcpTestServer tcp([](ServerOptions* options) { options->tcp.token_file.clear(); });
  REQUIRE(Eventually([&] { return !tcp.server->Notes().empty(); }));
  CHECK(Has(tcp.server->Notes()[0], "STEPWATCH_SOCKET_TOKEN_FILE is not set"));
}

TEST_CASE("strangers on the network keep out neither clients with the token nor those of the Unix socket") {
  const TcpTestServer tcp([](ServerOptions* options) { options->limits.connections = 3; });
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 6; ++i) crowd.push_back(std::make_unique<RawClient>(RawClient::Tcp{tcp.Address()}));
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200"));
  CHECK(tcp.server->client().Get("/v1/status").value().status == 200);
}

bool IsClosed(const RawClient& visitor) {
  pollfd end{visitor.fd(), POLLRDHUP, 0};
  return ::poll(&end, 1, 0) == 1;
}

TEST_CASE("of the connections without the token few are kept, whatever they send") {
  const TcpTestServer tcp([](ServerOptions* options) { options->limits.strangers = 3; });
  std::string sent;
  SECTION("they send nothing") {}
  SECTION("they send a part of a request") {
    sent = "G";
  }
  SECTION("they send a request without it") {
    sent = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 20; ++i) {
    crowd.push_back(std::make_unique<RawClient>(RawClient::Tcp{tcp.Address()}));
    (void)crowd.back()->Send(sent);
  }
  const auto closed = [&] {
    return std::count_if(crowd.begin(), crowd.end(), [](const auto& visitor) { return IsClosed(*visitor); });
  };
  CHECK(Eventually([&] { return closed() >= 17; }));
  CHECK(closed() == 17);
  // The oldest silent one goes first.
  if (sent.empty()) CHECK_FALSE(IsClosed(*crowd.back()));
}

TEST_CASE("a connection with the token stays, however many strangers come") {
  const TcpTestServer tcp([](ServerOptions* options) { options->limits.strangers = 2; });
  RawClient guest(RawClient::Tcp{tcp.Address()});
  const std::string question = "GET /v1/status HTTP/1.1\r\n" + kGood + "\r\n";
  REQUIRE(guest.Send(question));
  guest.ReceiveUntil("\"version\":1");
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 10; ++i) crowd.push_back(std::make_unique<RawClient>(RawClient::Tcp{tcp.Address()}));
  for (int i = 0; i < 8; ++i) CHECK_FALSE(Has(crowd[static_cast<size_t>(i)]->ReceiveAll(), "nothing for"));
  REQUIRE(guest.Send(question));
  CHECK(Has(guest.ReceiveUntil("\"version\":1"), "200 OK"));
}

TEST_CASE("a forked child holds neither the control socket on TCP nor a connection") {
  TcpTestServer tcp;
  const std::string address = tcp.Address();
  RawClient visitor(RawClient::Tcp{address});
  REQUIRE(visitor.Send("GET /v1/status HTTP/1.1\r\n" + kGood + "\r\n"));
  visitor.ReceiveUntil("\"version\":1");
  const pid_t child = ::fork();
  if (child == 0) {
    tcp.server->server.reset();
    ::pause();
    ::_exit(0);
  }
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200"));
  CHECK(tcp.server->server->Stop(std::chrono::steady_clock::now() + 10s));
  CHECK_FALSE(Has(visitor.ReceiveAll(), "nothing for"));
  // The address is free.
  const TcpTestServer next([&](ServerOptions* options) { options->tcp.address = address; });
  CHECK(next.Ask(kGood).starts_with("HTTP/1.1 200"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace stepwatch::control_socket
