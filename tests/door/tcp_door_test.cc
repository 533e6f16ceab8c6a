// The door on TCP: there for those who show the token, and for nobody else.
#include <sys/wait.h>

#include <algorithm>

#include "tests/door/open_door.h"
#include "tests/door/token.h"

namespace stepwatch::door {
namespace {

struct TcpOpenDoor {
  explicit TcpOpenDoor(const std::function<void(ServerOptions*)>& change = {}) {
    WriteToken(kToken);
    door = std::make_unique<OpenDoor>([&](ServerOptions* options) {
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
    REQUIRE(Eventually([&] { return !door->server->tcp_address().empty(); }));
    return door->server->tcp_address();
  }
  std::string Ask(const std::string& header, const std::string& request = "GET /v1/status") const {
    Visitor visitor(Visitor::Tcp{Address()});
    REQUIRE(visitor.Say(request + " HTTP/1.1\r\n" + header + "Connection: close\r\n\r\n"));
    return visitor.HearAll();
  }

  testing::TemporaryDirectory directory;
  const std::string path = directory / "token";
  std::unique_ptr<OpenDoor> door;
};

const std::string kGood = "Host: 127.0.0.1\r\nAuthorization: Bearer " + kToken + "\r\n";

TEST_CASE("the token opens the door on TCP, which tells once where it is") {
  const TcpOpenDoor tcp;
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(tcp.Address().starts_with("127.0.0.1:"));
  REQUIRE(tcp.door->Notes().size() == 1);
  CHECK(tcp.door->Notes()[0] ==
        "the control socket is open on TCP at " + tcp.Address() + " for clients that present the token");
}

TEST_CASE("without the token nothing is told, not even what there is") {
  const TcpOpenDoor tcp;
  for (const char* request : {"GET /v1/status", "GET /v1/nothing", "DELETE /v1/status", "GET /metrics",
                              "POST /v1/validate", "GET /v1/events"}) {
    const std::string heard = tcp.Ask("Host: 127.0.0.1\r\n", request);
    CHECK(heard.starts_with("HTTP/1.1 401 Unauthorized\r\n"));
    CHECK(Has(heard, "WWW-Authenticate: Bearer realm=\"stepwatch\"\r\n"));
    CHECK(Has(heard, "\"code\":\"unauthorized\""));
  }
  CHECK(tcp.Ask("Host: evil.example\r\nAuthorization: Bearer " + kToken + "\r\n").starts_with("HTTP/1.1 403"));
  CHECK(tcp.Ask("Origin: null\r\n" + kGood).starts_with("HTTP/1.1 403"));
  CHECK(tcp.Ask("Host: NODE7:1\r\nAuthorization: Bearer " + kToken + "\r\n").starts_with("HTTP/1.1 200"));
}

TEST_CASE("each request of a connection shows the token") {
  const TcpOpenDoor tcp;
  Visitor visitor(Visitor::Tcp{tcp.Address()});
  REQUIRE(
      visitor.Say("GET /v1/status HTTP/1.1\r\n" + kGood + "\r\nGET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  CHECK(Has(visitor.HearUntil("401 Unauthorized"), "200 OK"));
}

TEST_CASE("the socket asks for no token, and the network for no uid") {
  const TcpOpenDoor tcp([](ServerOptions* options) {
    options->credentials_of = [](int) { return std::optional<Peer>(Peer{1, ::geteuid() + 1}); };
  });
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200"));
  Visitor visitor(tcp.door->Path());
  REQUIRE(visitor.Say("GET /v1/status HTTP/1.1\r\n" + kGood + "\r\n"));
  CHECK(visitor.HearAll().starts_with("HTTP/1.1 403"));
}

TEST_CASE("a new token ends the connections of the old one, and a token that is gone closes the door") {
  const TcpOpenDoor tcp;
  Visitor reader(Visitor::Tcp{tcp.Address()});
  REQUIRE(reader.Say("GET /v1/events HTTP/1.1\r\n" + kGood + "\r\n"));
  CHECK(Has(reader.HearUntil("\r\n\r\n"), "200 OK"));
  const std::string next(32, 'n');
  tcp.WriteToken(next);
  CHECK_FALSE(Has(reader.HearAll(), "nothing for"));
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 401"));
  CHECK(tcp.Ask("Host: localhost\r\nAuthorization: Bearer " + next + "\r\n").starts_with("HTTP/1.1 200"));
  REQUIRE(::unlink(tcp.path.c_str()) == 0);
  REQUIRE(Eventually([&] { return tcp.door->server->tcp_address().empty(); }));
  CHECK(Has(tcp.door->Notes().back(), "the control socket is not open on TCP at 127.0.0.1:0: cannot open " + tcp.path));
  CHECK(tcp.door->client().Get("/v1/status").value().status == 200);
  tcp.WriteToken(kToken);
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200"));
}

TEST_CASE("an address that is none, or is everybody's, or is taken, is one note, and the socket is there") {
  const TcpOpenDoor first;
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
    const TcpOpenDoor tcp([&, wanted = address](ServerOptions* options) { options->tcp.address = wanted; });
    CHECK(tcp.door->client().Get("/v1/status").value().status == 200);
    REQUIRE(Eventually([&] { return tcp.door->job->ticks > 3; }));
    REQUIRE(tcp.door->Notes().size() == 1);
    CHECK(Has(tcp.door->Notes()[0], why));
    CHECK(tcp.door->server->tcp_address().empty());
  }
}

TEST_CASE("an address that was taken is had once it is free") {
  auto first = std::make_unique<TcpOpenDoor>();
  const std::string address = first->Address();
  const TcpOpenDoor second([&](ServerOptions* options) { options->tcp.address = address; });
  REQUIRE(Eventually([&] { return second.door->Notes().size() == 1; }));
  first.reset();
  CHECK(second.Address() == address);
  CHECK(second.Ask(kGood).starts_with("HTTP/1.1 200"));
}

TEST_CASE("without a file for the token there is no door on TCP") {
  const TcpOpenDoor tcp([](ServerOptions* options) { options->tcp.token_file.clear(); });
  REQUIRE(Eventually([&] { return !tcp.door->Notes().empty(); }));
  CHECK(Has(tcp.door->Notes()[0], "STEPWATCH_DOOR_TOKEN_FILE is not set"));
}

TEST_CASE("strangers on the network keep out neither who shows the token nor anybody at the socket") {
  const TcpOpenDoor tcp([](ServerOptions* options) { options->limits.connections = 3; });
  std::vector<std::unique_ptr<Visitor>> crowd;
  for (int i = 0; i < 6; ++i) crowd.push_back(std::make_unique<Visitor>(Visitor::Tcp{tcp.Address()}));
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200"));
  CHECK(tcp.door->client().Get("/v1/status").value().status == 200);
}

bool IsShownOut(const Visitor& visitor) {
  pollfd end{visitor.fd(), POLLRDHUP, 0};
  return ::poll(&end, 1, 0) == 1;
}

TEST_CASE("of those who have not shown the token few are kept, whatever they say or leave unsaid") {
  const TcpOpenDoor tcp([](ServerOptions* options) { options->limits.strangers = 3; });
  std::string said;
  SECTION("they say nothing") {}
  SECTION("they begin to say something") {
    said = "G";
  }
  SECTION("they ask, and are told to show it") {
    said = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  std::vector<std::unique_ptr<Visitor>> crowd;
  for (int i = 0; i < 20; ++i) {
    crowd.push_back(std::make_unique<Visitor>(Visitor::Tcp{tcp.Address()}));
    (void)crowd.back()->Say(said);
  }
  const auto shown_out = [&] {
    return std::count_if(crowd.begin(), crowd.end(), [](const auto& visitor) { return IsShownOut(*visitor); });
  };
  CHECK(Eventually([&] { return shown_out() >= 17; }));
  CHECK(shown_out() == 17);
  // The oldest of those who say nothing goes first.
  if (said.empty()) CHECK_FALSE(IsShownOut(*crowd.back()));
}

TEST_CASE("who has shown the token stays, however many strangers come") {
  const TcpOpenDoor tcp([](ServerOptions* options) { options->limits.strangers = 2; });
  Visitor guest(Visitor::Tcp{tcp.Address()});
  const std::string question = "GET /v1/status HTTP/1.1\r\n" + kGood + "\r\n";
  REQUIRE(guest.Say(question));
  guest.HearUntil("\"version\":1");
  std::vector<std::unique_ptr<Visitor>> crowd;
  for (int i = 0; i < 10; ++i) crowd.push_back(std::make_unique<Visitor>(Visitor::Tcp{tcp.Address()}));
  for (int i = 0; i < 8; ++i) CHECK_FALSE(Has(crowd[static_cast<size_t>(i)]->HearAll(), "nothing for"));
  REQUIRE(guest.Say(question));
  CHECK(Has(guest.HearUntil("\"version\":1"), "200 OK"));
}

TEST_CASE("a forked child holds neither the door on TCP nor a connection") {
  TcpOpenDoor tcp;
  const std::string address = tcp.Address();
  Visitor visitor(Visitor::Tcp{address});
  REQUIRE(visitor.Say("GET /v1/status HTTP/1.1\r\n" + kGood + "\r\n"));
  visitor.HearUntil("\"version\":1");
  const pid_t child = ::fork();
  if (child == 0) {
    tcp.door->server.reset();
    ::pause();
    ::_exit(0);
  }
  CHECK(tcp.Ask(kGood).starts_with("HTTP/1.1 200"));
  CHECK(tcp.door->server->Stop(std::chrono::steady_clock::now() + 10s));
  CHECK_FALSE(Has(visitor.HearAll(), "nothing for"));
  // Nobody listens there any more.
  const TcpOpenDoor next([&](ServerOptions* options) { options->tcp.address = address; });
  CHECK(next.Ask(kGood).starts_with("HTTP/1.1 200"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace stepwatch::door
