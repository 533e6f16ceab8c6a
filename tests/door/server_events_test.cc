#include <nlohmann/json.hpp>

#include "tests/door/open_door.h"

namespace stepwatch::door {
namespace {

Event About(const std::string& message) {
  Event event;
  event.kind = EventKind::kNote;
  event.message = message;
  return event;
}

// Until `count` events have come.
std::vector<Json> Follow(const Client& client, uint64_t after, size_t count) {
  std::vector<Json> events;
  const Status followed = client.Follow(after, [&](const std::string& name, const std::string& data) {
    events.push_back(ParseJson(data).value());
    events.back()["name"] = name;
    return events.size() < count;
  });
  CHECK(followed.ToString() == "ok");
  return events;
}

TEST_CASE("who asks for events gets those that were, then those that come") {
  OpenDoor door;
  door.job->events.Add(About("first"));
  std::vector<std::string> told;
  const Status followed = door.client().Follow(0, [&](const std::string&, const std::string& data) {
    told.push_back(ParseJson(data).value()["message"]);
    if (told.size() == 1) {
      door.job->events.Add(About("second"));
      door.server->Wake();
    }
    return told.size() < 2;
  });
  CHECK(followed.ok());
  CHECK(told == std::vector<std::string>{"first", "second"});
}

TEST_CASE("who lost the connection goes on with the event after the last one, and is told what is not kept") {
  OpenDoor door;
  for (int i = 1; i <= 1500; ++i) door.job->events.Add(About(std::to_string(i)));
  const std::vector<Json> next = Follow(door.client(), 1400, 2);
  CHECK(next[0]["id"] == 1401);
  CHECK(next[0]["message"] == "1401");
  CHECK(next[0]["event"] == "note");
  CHECK(next[0]["version"] == 1);
  const std::vector<Json> late = Follow(door.client(), 100, 2);
  CHECK(late[0]["name"] == "gap");
  CHECK(late[0]["missed"] == 400);
  CHECK(late[1]["id"] == 501);
}

TEST_CASE("the number of an event of another monitor begins at the beginning") {
  OpenDoor door;
  door.job->events.Add(About("only"));
  CHECK(Follow(door.client(), 77, 1)[0]["id"] == 1);
}

TEST_CASE("a stream without events shows that it lives") {
  OpenDoor door([](ServerOptions* options) { options->limits.heartbeat = 10ms; });
  Visitor reader(door.Path());
  REQUIRE(reader.Say("GET /v1/events HTTP/1.1\r\n\r\n"));
  CHECK(Has(reader.HearUntil(": the control socket is open\n\n"), "text/event-stream"));
}

TEST_CASE("a reader who falls behind is cut off, and costs no memory meanwhile") {
  OpenDoor door([](ServerOptions* options) { options->limits.send_time = 200ms; });
  Visitor slow(door.Path());
  REQUIRE(slow.Say("GET /v1/events HTTP/1.1\r\n\r\n"));
  slow.HearUntil("\r\n\r\n");
  const std::string message(10000, 'x');
  for (int i = 0; i < 1500; ++i) {
    door.job->events.Add(About(message));
    door.server->Wake();
  }
  REQUIRE(Eventually([&] { return !slow.Say("x"); }));
  CHECK(slow.HearAll().size() < 1500 * message.size() / 2);
  CHECK(door.client().Get("/v1/status").ok());
}

TEST_CASE("a reader who goes is noticed") {
  OpenDoor door([](ServerOptions* options) { options->limits.connections = 1; });
  {
    Visitor reader(door.Path());
    REQUIRE(reader.Say("GET /v1/events HTTP/1.1\r\n\r\n"));
    reader.HearUntil("\r\n\r\n");
  }
  CHECK(Eventually([&] { return door.client().Get("/v1/status").value().status == 200; }));
}

TEST_CASE("the last events still leave when the door closes") {
  OpenDoor door;
  Visitor reader(door.Path());
  REQUIRE(reader.Say("GET /v1/events HTTP/1.1\r\n\r\n"));
  reader.HearUntil("\r\n\r\n");
  for (int i = 1; i <= 200; ++i) door.job->events.Add(About("number " + std::to_string(i) + "."));
  CHECK(door.server->Stop(std::chrono::steady_clock::now() + 10s));
  CHECK(Has(reader.HearAll(), "number 200."));
}

}  // namespace
}  // namespace stepwatch::door
