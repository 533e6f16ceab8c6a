#include <nlohmann/json.hpp>

#include "src/http/client.h"
#include "src/json/json.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

Event About(const std::string& message) {
  Event event;
  event.kind = EventKind::kNote;
  event.message = message;
  return event;
}

// Until `count` events have come.
std::vector<Json> Follow(const http::Client& client, uint64_t after, size_t count) {
  std::vector<Json> events;
  const Status followed = client.Follow(after, [&](const std::string& name, const std::string& data) {
    events.push_back(json::Parse(data).value());
    events.back()["name"] = name;
    return events.size() < count;
  });
  CHECK(followed.ToString() == "ok");
  return events;
}

TEST_CASE("a client that follows the events receives past ones, then new ones") {
  TestServer server;
  server.job->events.Add(About("first"));
  std::vector<std::string> messages;
  const Status followed = server.client().Follow(0, [&](const std::string&, const std::string& data) {
    messages.push_back(json::Parse(data).value()["message"]);
    if (messages.size() == 1) {
      server.job->events.Add(About("second"));
      server.server->Wake();
    }
    return messages.size() < 2;
  });
  CHECK(followed.ok());
  CHECK(messages == std::vector<std::string>{"first", "second"});
}

TEST_CASE("a client that lost the connection continues after its last event, and learns of those that are not kept") {
  TestServer server;
  for (int i = 1; i <= 1500; ++i) server.job->events.Add(About(std::to_string(i)));
  const std::vector<Json> next = Follow(server.client(), 1400, 2);
  CHECK(next[0]["id"] == 1401);
  CHECK(next[0]["message"] == "1401");
  CHECK(next[0]["event"] == "note");
  CHECK(next[0]["version"] == 1);
  const std::vector<Json> late = Follow(server.client(), 100, 2);
  CHECK(late[0]["name"] == "gap");
  CHECK(late[0]["missed"] == 400);
  CHECK(late[1]["id"] == 501);
}

TEST_CASE("the number of an event of another monitor begins at the beginning") {
  TestServer server;
  server.job->events.Add(About("only"));
  CHECK(Follow(server.client(), 77, 1)[0]["id"] == 1);
}

TEST_CASE("a stream without events sends a sign of life") {
  TestServer server([](ServerOptions* options) { options->limits.heartbeat = 10ms; });
  RawClient reader(server.Path());
  REQUIRE(reader.Send("GET /v1/events HTTP/1.1\r\n\r\n"));
  CHECK(Has(reader.ReceiveUntil(": the control socket is open\n\n"), "text/event-stream"));
}

TEST_CASE("a reader that falls behind is cut off, and costs no memory meanwhile") {
  TestServer server([](ServerOptions* options) { options->limits.send_time = 200ms; });
  RawClient slow(server.Path());
  REQUIRE(slow.Send("GET /v1/events HTTP/1.1\r\n\r\n"));
  slow.ReceiveUntil("\r\n\r\n");
  const std::string message(10000, 'x');
  for (int i = 0; i < 1500; ++i) {
    server.job->events.Add(About(message));
    server.server->Wake();
  }
  REQUIRE(Eventually([&] { return !slow.Send("x"); }));
  CHECK(slow.ReceiveAll().size() < 1500 * message.size() / 2);
  CHECK(server.client().Get("/v1/status").ok());
}

TEST_CASE("a reader that leaves is noticed") {
  TestServer server([](ServerOptions* options) { options->limits.connections = 1; });
  {
    RawClient reader(server.Path());
    REQUIRE(reader.Send("GET /v1/events HTTP/1.1\r\n\r\n"));
    reader.ReceiveUntil("\r\n\r\n");
  }
  CHECK(Eventually([&] { return server.client().Get("/v1/status").value().status == 200; }));
}

TEST_CASE("the last events still leave when the control socket closes") {
  TestServer server;
  RawClient reader(server.Path());
  REQUIRE(reader.Send("GET /v1/events HTTP/1.1\r\n\r\n"));
  reader.ReceiveUntil("\r\n\r\n");
  for (int i = 1; i <= 200; ++i) server.job->events.Add(About("number " + std::to_string(i) + "."));
  CHECK(server.server->Stop(std::chrono::steady_clock::now() + 10s));
  CHECK(Has(reader.ReceiveAll(), "number 200."));
}

}  // namespace
}  // namespace stepwatch::control_socket
