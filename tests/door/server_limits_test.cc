// People who mean no good, and what they cost the others: nothing.
#include "tests/door/open_door.h"

namespace stepwatch::door {
namespace {

TEST_CASE("who connects and says nothing is shown out, and the others are answered") {
  OpenDoor door([](ServerOptions* options) { options->limits.idle_time = 50ms; });
  Visitor silent(door.Path());
  CHECK(door.client().Get("/v1/status").value().status == 200);
  CHECK(silent.HearAll().empty());
}

TEST_CASE("who says a byte now and then has the time for one header and no more") {
  OpenDoor door([](ServerOptions* options) { options->limits.header_time = 100ms; });
  Visitor slow(door.Path());
  std::atomic<bool> ends{false};
  std::thread dripping([&] {
    for (const char c : std::string(10000, 'G')) {
      if (ends || !slow.Say({c})) return;
      std::this_thread::sleep_for(10ms);
    }
  });
  const std::string heard = slow.HearAll();
  ends = true;
  dripping.join();
  CHECK(heard.starts_with("HTTP/1.1 408"));
  CHECK(Has(heard, "not complete within 100 ms"));
}

TEST_CASE("a body that does not come is not waited for without end") {
  OpenDoor door([](ServerOptions* options) { options->limits.body_time = 50ms; });
  Visitor slow(door.Path());
  REQUIRE(slow.Say("POST /v1/validate HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"));
  CHECK(Has(slow.HearAll(), "\"code\":\"timeout\""));
}

TEST_CASE("garbage is answered with 400") {
  OpenDoor door;
  for (const std::string& garbage :
       {std::string("\x16\x03\x01 this is TLS\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("\0\0\0\0\r\n\r\n", 8),
        std::string("POST /v1/validate HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("POST /v1/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")}) {
    Visitor visitor(door.Path());
    REQUIRE(visitor.Say(garbage));
    const std::string heard = visitor.HearAll();
    CHECK(heard.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    CHECK(Has(heard, "\"code\":\"bad_request\""));
  }
  CHECK(door.client().Get("/v1/status").value().status == 200);
}

TEST_CASE("a header that is too long is refused before it is whole") {
  OpenDoor door;
  Visitor visitor(door.Path());
  (void)visitor.Say("GET /v1/status HTTP/1.1\r\nX: " + std::string(20 << 10, 'x'));
  CHECK(visitor.HearAll().starts_with("HTTP/1.1 431"));
}

TEST_CASE("a body that is too large is refused, announced or not, and its sender reads why") {
  OpenDoor door;
  const std::string large(3 << 20, ' ');
  const Result<Reply> announced = door.client().Ask("POST", "/v1/validate", large);
  REQUIRE(announced.status().ToString() == "ok");
  CHECK(announced.value().status == 413);
  CHECK(Has(announced.value().body, "1048576 bytes"));
  Visitor visitor(door.Path());
  REQUIRE(visitor.Say("POST /v1/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n"));
  (void)visitor.Say(large);
  CHECK(visitor.HearAll().starts_with("HTTP/1.1 413"));
  // As large as it may be.
  CHECK(door.client().Ask("POST", "/v1/validate", "{}" + std::string((1 << 20) - 2, ' ')).value().status == 200);
}

// A door with room for three connections, which three readers of events take.
struct FullDoor {
  FullDoor() {
    for (int i = 0; i < 3; ++i) {
      guests.push_back(std::make_unique<Visitor>(path));
      REQUIRE(guests.back()->Say("GET /v1/events HTTP/1.1\r\n\r\n"));
      guests.back()->HearUntil("\r\n\r\n");
    }
  }

  OpenDoor door{[](ServerOptions* options) {
    options->limits.connections = 3;
    options->limits.linger_time = 500ms;
  }};
  const std::string path = door.Path();
  std::vector<std::unique_ptr<Visitor>> guests;
};

TEST_CASE("as many connections as there may be are served, one more hears when to come again") {
  FullDoor full;
  Visitor late(full.path);
  (void)late.Say("GET /v1/status HTTP/1.1\r\n\r\n");
  const std::string heard = late.HearAll();
  CHECK(heard.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
  CHECK(Has(heard, "Retry-After: 1\r\n"));
  full.guests.pop_back();
  CHECK(Eventually([&] { return full.door.client().Get("/v1/status").value().status == 200; }));
}

TEST_CASE("a stop gets through where all connections are taken") {
  FullDoor full;
  full.door.job->change_report.outcome = ChangeReport::Outcome::kWritten;
  CHECK(full.door.client().Ask("POST", "/v1/start", "").value().status == 503);
  CHECK(full.door.client().Ask("POST", "/v1/stop", "").value().status == 200);
  const std::vector<ConfigChange> changes = full.door.job->Changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes.front().verb == ConfigChange::Verb::kStop);
}

TEST_CASE("a connection that waits for nothing makes room for the next one") {
  OpenDoor door([](ServerOptions* options) { options->limits.connections = 3; });
  std::vector<std::unique_ptr<Visitor>> guests;
  for (int i = 0; i < 6; ++i) {
    guests.push_back(std::make_unique<Visitor>(door.Path()));
    REQUIRE(guests.back()->Say("GET /v1/status HTTP/1.1\r\n\r\n"));
    CHECK(Has(guests.back()->HearUntil("\"version\":1"), " 200 "));
  }
  (void)guests.front()->HearAll();  // ends with the connection
}

TEST_CASE("of users who may not ask few are kept, each is told why, and the oldest goes first") {
  OpenDoor door([](ServerOptions* options) {
    options->limits.strangers = 3;
    options->limits.linger_time = 60s;
    options->credentials_of = [](int) { return std::optional<Peer>(Peer{1, ::geteuid() + 1}); };
  });
  std::vector<std::unique_ptr<Visitor>> crowd;
  for (int i = 0; i < 20; ++i) crowd.push_back(std::make_unique<Visitor>(door.Path()));
  for (int i = 0; i < 17; ++i) {
    const std::string heard = crowd[static_cast<size_t>(i)]->HearAll();
    CHECK(heard.starts_with("HTTP/1.1 403"));
    CHECK_FALSE(Has(heard, "nothing for"));
  }
}

TEST_CASE("a thousand connections at once are each answered or turned away, and then the door is as before") {
  OpenDoor door([](ServerOptions* options) { options->limits.linger_time = 20ms; });
  const std::string path = door.Path();
  const size_t descriptors = testing::EntriesOf("/proc/self/fd");
  int answered = 0, turned_away = 0;
  {
    std::vector<std::unique_ptr<Visitor>> crowd;
    for (int i = 0; i < 1000; ++i) {
      crowd.push_back(std::make_unique<Visitor>(path));
      (void)crowd.back()->Say("GET /v1/status HTTP/1.1\r\nConnection: close\r\n\r\n");
    }
    for (const auto& visitor : crowd) {
      const std::string heard = visitor->HearAll();
      answered += heard.starts_with("HTTP/1.1 200") ? 1 : 0;
      turned_away += heard.starts_with("HTTP/1.1 503") ? 1 : 0;
    }
  }
  CHECK(answered + turned_away == 1000);
  CHECK(answered > 0);
  CHECK(Eventually([&] { return door.client().Get("/v1/status").value().status == 200; }));
  CHECK(Eventually([&] { return testing::EntriesOf("/proc/self/fd") <= descriptors; }));
}

TEST_CASE("who asks and never reads is shown out") {
  OpenDoor door([](ServerOptions* options) { options->limits.send_time = 100ms; });
  JobStatus status;
  status.config_path = std::string(4 << 20, 'x');  // more than a socket holds
  door.job->SetStatus(status);
  Visitor deaf(door.Path());
  REQUIRE(deaf.Say("GET /v1/status HTTP/1.1\r\n\r\n"));
  const Visitor another(door.Path());
  // The end comes before all of it has.
  REQUIRE(Eventually([&] { return !deaf.Say("\r\n"); }));
  CHECK(deaf.HearAll().size() < status.config_path.size());
}

}  // namespace
}  // namespace stepwatch::door
