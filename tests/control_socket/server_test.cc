#include "controller/control_socket/server.h"

#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "src/http/client.h"
#include "src/json/json.h"
#include "src/sockets/peer.h"
#include "src/sockets/unix_address.h"
#include "src/sockets/unix_listener.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

constexpr const char* kAsk = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_CASE("a status has the hash of the file as its tag") {
  TestServer server;
  status::JobStatus status;
  status.reload.file_sha256 = "abc";
  status.monitor.step = 17;
  server.job->SetStatus(status);
  RawClient visitor(server.Path());
  REQUIRE(visitor.Send("GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  const std::string answer = visitor.ReceiveAll();
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(Has(answer, "ETag: \"abc\"\r\n"));
  CHECK(Has(answer, "Content-Type: application/json\r\n"));
  CHECK(server.GetJson("/v1/status")["step"] == 17);
}

TEST_CASE("one connection carries several requests, also at once") {
  TestServer server;
  RawClient visitor(server.Path());
  REQUIRE(visitor.Send(kAsk));
  CHECK(Has(visitor.ReceiveUntil("\"version\":1"), "200 OK"));
  REQUIRE(visitor.Send(std::string(kAsk) + "GET /v1/ranks HTTP/1.1\r\nConnection: close\r\n\r\n"));
  CHECK(Has(visitor.ReceiveAll(), "\"missing\":[]"));
}

TEST_CASE("only the owner finds and opens the socket") {
  TestServer server;
  struct stat about {};
  REQUIRE(::lstat(server.Path().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  REQUIRE(::lstat(server.runtime.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0700);
  CHECK(server.Path() == server.runtime + "/" + std::to_string(::getpid()) + "-1.sock");
}

TEST_CASE("another user is refused, and so is one whom the kernel cannot name") {
  for (const auto& credentials :
       {std::optional<sockets::Peer>(sockets::Peer{1, ::geteuid() + 1}), std::optional<sockets::Peer>()}) {
    TestServer server([&](ServerOptions* options) { options->credentials_of = [=](int) { return credentials; }; });
    RawClient visitor(server.Path());
    REQUIRE(visitor.Send(kAsk));
    const std::string answer = visitor.ReceiveAll();
    CHECK(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"));
    CHECK(Has(answer, "\"code\":\"forbidden\""));
    CHECK_FALSE(Has(answer, "state"));
  }
}

TEST_CASE("metrics have the requested format, and as many sites as are wanted") {
  TestServer server;
  LatestValue value;
  value.name = "fc.weight";
  value.record.value_count = 1;
  value.record.values[0].f64 = 0.25;
  server.job->gradients = {value};
  const auto ask = [&](const std::string& accept) {
    RawClient visitor(server.Path());
    REQUIRE(visitor.Send("GET /metrics HTTP/1.1\r\nAccept: " + accept + "\r\nConnection: close\r\n\r\n"));
    return visitor.ReceiveAll();
  };
  const std::string plain = ask("*/*");
  CHECK(Has(plain, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  CHECK_FALSE(Has(plain, "fc.weight"));
  CHECK(server.job->latest_asked == 0);
  server.job->sites_max = 10;
  const std::string open = ask("application/openmetrics-text");
  CHECK(Has(open, "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
  CHECK(Has(open, "site=\"fc.weight\",op=\"norm\"} 0.25\n"));
  CHECK(open.ends_with("# EOF\n"));
}

TEST_CASE("unknown paths and methods have their status") {
  TestServer server;
  const http::Client client = server.client();
  CHECK(client.Get("/v1/nothing").value().status == 404);
  CHECK(client.Get("/v1/latest/nothing").value().status == 404);
  CHECK(Has(client.Get("/v1/latest/nothing").value().body, "grad_reduced"));
  CHECK(client.Get("/v1/latest/actv").value().status == 200);
  CHECK(client.Ask("POST", "/v1/status").value().status == 405);
  CHECK(client.Get("/v1/status?pretty").value().status == 200);
}

TEST_CASE("a config is validated as on the command line") {
  TestServer server;
  const auto ask = [&](const std::string& text) {
    const Result<http::Reply> reply = server.client().Ask("POST", "/v1/validate", text);
    REQUIRE(reply.ok());
    CHECK(reply.value().status == 200);
    return json::Parse(reply.value().body).value();
  };
  CHECK(ask("{\"opps\": []}")["warnings"][0]["key"] == "opps");
  const Json refused = ask("{\n  \"ops\": \"norm\"\n}");
  CHECK(refused["valid"] == false);
  CHECK(refused["error"]["line"] == 2);
  CHECK(refused["version"] == 1);
}

TEST_CASE("a preview is requested from the job, or rejected until it can be made") {
  TestServer server;
  CHECK(server.client().Ask("POST", "/v1/plan", "{}").value().status == 503);
  PlanPreview preview;
  preview.state = PlanPreview::State::kInvalid;
  preview.refusal = Status(StatusCode::kWrongType, "is no list", {"ops", 2, 10});
  server.job->SetPreview(preview);
  const http::Reply reply = server.client().Ask("POST", "/v1/plan", "the text").value();
  CHECK(reply.status == 200);
  CHECK(reply.body == R"({"version":1,"state":"invalid","sha256":"the text","warnings":[],)"
                      R"("error":{"key":"ops","line":2,"column":10,"message":"is no list"}})");
}

TEST_CASE("a body that waits for 100 Continue is invited") {
  TestServer server;
  RawClient visitor(server.Path());
  REQUIRE(visitor.Send("POST /v1/validate HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  CHECK(visitor.ReceiveUntil("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  REQUIRE(visitor.Send("{}"));
  CHECK(Has(visitor.ReceiveUntil("}"), "\"valid\":true"));
}

TEST_CASE("a job that does not answer is reported at a deadline, and the control socket answers others meanwhile") {
  TestServer server([](ServerOptions* options) { options->limits.answer_time = 50ms; });
  server.job->holds_latest = true;
  const http::Reply reply = server.client().Get("/v1/latest/actv").value();
  CHECK(reply.status == 503);
  CHECK(Has(reply.body, "has not answered within 50 ms"));
  CHECK(server.client().Get("/v1/status").value().status == 200);
}

TEST_CASE("a socket that vanished, or was replaced, is there again, and an open connection stays open") {
  TestServer server;
  const std::string path = server.Path();
  RawClient visitor(path);
  REQUIRE(visitor.Send(kAsk));
  visitor.ReceiveUntil("\"version\":1");
  REQUIRE(::unlink(path.c_str()) == 0);
  REQUIRE(Eventually([&] { return ::access(path.c_str(), F_OK) == 0; }));
  CHECK(server.client().Get("/v1/status").ok());
  REQUIRE(visitor.Send(kAsk));
  CHECK(Has(visitor.ReceiveUntil("\"version\":1"), "200 OK"));
  CHECK(server.RemoveRuntime());
  REQUIRE(Eventually([&] { return ::access(path.c_str(), F_OK) == 0; }));
  CHECK(Eventually([&] { return server.client().Get("/v1/status").ok(); }));
}

TEST_CASE("a socket that lies elsewhere moves to its own directory as soon as it can, with a note") {
  testing::TemporaryDirectory directory;
  const std::string missing = directory / "later/run";
  TestServer server(
      [&](ServerOptions* options) { options->directories.insert(options->directories.begin(), missing); });
  const std::string elsewhere = server.Path();
  CHECK_FALSE(elsewhere.starts_with(missing));
  std::filesystem::create_directory(directory / "later");
  CHECK(Eventually([&] { return server.server->path().starts_with(missing); }));
  CHECK(server.client().Get("/v1/status").ok());
  CHECK(::access(elsewhere.c_str(), F_OK) != 0);
  REQUIRE(server.Notes().size() == 1);
  CHECK(Has(server.Notes()[0], "has moved from " + elsewhere + " to " + missing));
}

TEST_CASE("two control sockets of one process have a socket each, and closing takes one away") {
  TestServer first;
  const std::string path = first.Path();
  TestServer second([&](ServerOptions* options) { options->directories = {first.runtime}; });
  CHECK(second.Path() == first.runtime + "/" + std::to_string(::getpid()) + "-2.sock");
  CHECK(first.client().Get("/v1/status").ok());
  CHECK(second.server->Stop(std::chrono::steady_clock::now() + 10s));
  CHECK(testing::EntriesOf(first.runtime) == 1);
  CHECK(first.server->Stop(std::chrono::steady_clock::now() + 10s));
  CHECK(testing::EntriesOf(first.runtime) == 0);
  CHECK(first.server->path().empty());
}

TEST_CASE("a socket that a dead process of this pid has left is replaced") {
  testing::TemporaryDirectory directory;
  const std::string stale = directory / (std::to_string(::getpid()) + "-1.sock");
  {
    const base::UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    const auto address = sockets::UnixAddress(stale);
    REQUIRE(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0);
  }
  TestServer server([&](ServerOptions* options) { options->directories = {directory.path()}; });
  CHECK(server.Path() == stale);
  CHECK(server.client().Get("/v1/status").ok());
}

TEST_CASE(
    "without a directory there is no control socket, which is reported once, and there is one when there can be") {
  testing::TemporaryDirectory directory;
  const std::string missing = directory / "later/run";
  TestServer server([&](ServerOptions* options) { options->directories = {missing}; });
  REQUIRE(Eventually([&] { return server.job->ticks > 5; }));
  CHECK(server.Troubles().size() == 1);
  CHECK(Has(server.Troubles().front(), "cannot look at " + missing));
  std::filesystem::create_directory(directory / "later");
  CHECK(server.Path().starts_with(missing));
  CHECK(server.client().Get("/v1/status").ok());
}

TEST_CASE("a forked child has no control socket, and its end takes nothing from the parent") {
  TestServer server;
  const std::string path = server.Path();
  RawClient visitor(path);
  REQUIRE(visitor.Send(kAsk));
  visitor.ReceiveUntil("\"version\":1");
  const pid_t child = ::fork();
  if (child == 0) {
    server.server.reset();
    ::pause();
    ::_exit(0);
  }
  // The child still runs, and holds neither the socket nor the connection.
  CHECK(server.client().Get("/v1/status").ok());
  CHECK(server.server->Stop(std::chrono::steady_clock::now() + 10s));
  CHECK_FALSE(Has(visitor.ReceiveAll(), "nothing for"));
  CHECK(::access(path.c_str(), F_OK) != 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("an orphaned child does not make the control socket of its dead parent look open") {
  testing::TemporaryDirectory directory;
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    Server server({.directories = {directory.path()}}, std::make_shared<FakeJob>());
    server.Start();
    while (server.path().empty()) ::usleep(1000);
    const pid_t orphan = ::fork();
    if (orphan == 0) {
      ::pause();
      ::_exit(0);
    }
    (void)!::write(pipe[1], &orphan, sizeof orphan);
    ::pause();
    ::_exit(0);
  }
  pid_t orphan = 0;
  REQUIRE(::read(pipe[0], &orphan, sizeof orphan) == sizeof orphan);
  const std::string path = directory / (std::to_string(parent) + "-1.sock");
  CHECK(http::Client(path).Get("/v1/status").ok());
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  CHECK(Eventually(
      [&] { return sockets::RefusesConnections(path); }));  // the kernel may close a socket a moment after its process
  CHECK_FALSE(http::Client(path).Get("/v1/status").ok());
  ::kill(orphan, SIGKILL);
}

TEST_CASE("closing waits for an answer under way, and no longer than it must") {
  TestServer server;
  server.job->holds_latest = true;
  RawClient visitor(server.Path());
  REQUIRE(visitor.Send("GET /v1/latest/actv HTTP/1.1\r\n\r\n"));
  REQUIRE(Eventually([&] { return server.job->latest_asked > 0; }));
  server.job->holds_latest = false;
  CHECK(server.server->Stop(std::chrono::steady_clock::now() + 10s));
  CHECK(Has(visitor.ReceiveAll(), "200 OK"));
}

TEST_CASE("a job that hangs is abandoned, and finds all that it needs when it continues") {
  TestServer server([](ServerOptions* options) { options->limits.finish_time = 10ms; });
  server.job->holds_latest = true;
  RawClient visitor(server.Path());
  REQUIRE(visitor.Send("GET /v1/latest/actv HTTP/1.1\r\n\r\n"));
  REQUIRE(Eventually([&] { return server.job->latest_asked > 0; }));
  CHECK_FALSE(server.server->Stop(std::chrono::steady_clock::now() + 100ms));
  server.server.reset();
  const std::weak_ptr<FakeJob> job = server.job;
  server.job->holds_latest = false;
  server.job = std::make_shared<FakeJob>();
  CHECK(Eventually([&] { return job.expired(); }));
}

}  // namespace
}  // namespace stepwatch::control_socket
