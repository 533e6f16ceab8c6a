#include "operations/discovery/job_connection.h"

#include <boost/asio/executor_work_guard.hpp>
#include <future>

#include "src/http/client.h"
#include "tests/catch.h"
#include "tests/operations/child.h"
#include "tests/operations/fake_job_socket.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

using namespace std::chrono_literals;
using testing::FakeJobSocket;
using testing::HttpOk;
using testing::TemporaryDirectory;

struct Caller {
  boost::asio::io_context loop;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{loop.get_executor()};

  Result<http::Reply> Ask(JobConnection& connection, std::chrono::milliseconds time = 60s, size_t bytes_max = 1 << 20) {
    std::optional<Result<http::Reply>> result;
    connection.Get("/x", time, bytes_max, [&](Result<http::Reply> reply) { result = std::move(reply); });
    CHECK(connection.is_busy());
    REQUIRE(testing::Eventually([&] {
      loop.poll();
      return result.has_value();
    }));
    CHECK_FALSE(connection.is_busy());
    return *result;
  }
  std::shared_ptr<JobConnection> To(const std::string& path) {
    return std::make_shared<JobConnection>(loop, path, std::nullopt);
  }
};

TEST_CASE("requests go one after the other over one connection, and the kernel names the server") {
  const TemporaryDirectory directory;
  FakeJobSocket server(directory / "a.sock", [](const std::string& target) { return HttpOk(target); });
  Caller caller;
  const auto connection = caller.To(directory / "a.sock");
  CHECK(connection->server() == nullptr);
  for (int i = 0; i < 3; ++i) CHECK(caller.Ask(*connection).value().body == "/x");
  CHECK(server.connections == 1);
  REQUIRE(connection->server() != nullptr);
  CHECK(connection->server()->peer.pid == ::getpid());
}

TEST_CASE("a connection that the other end has closed meanwhile is made again") {
  const TemporaryDirectory directory;
  FakeJobSocket server(directory / "a.sock", [](const std::string&) {
    return std::string("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1");
  });
  Caller caller;
  const auto connection = caller.To(directory / "a.sock");
  CHECK(caller.Ask(*connection).ok());
  CHECK(caller.Ask(*connection).ok());
  CHECK(server.connections == 2);
}

TEST_CASE("a control socket that is started anew answers on a new connection") {
  const TemporaryDirectory directory;
  Caller caller;
  const auto connection = caller.To(directory / "a.sock");
  for (int i = 0; i < 2; ++i) {
    const FakeJobSocket server(directory / "a.sock", [](const std::string&) { return HttpOk("here"); });
    CHECK(caller.Ask(*connection).ok());
    ::unlink((directory / "a.sock").c_str());
  }
}

TEST_CASE("where nobody listens the answer is that, and so it is where there is nothing") {
  const TemporaryDirectory directory;
  ::close(testing::ListenAt(directory / "dead.sock"));
  Caller caller;
  CHECK(caller.Ask(*caller.To(directory / "dead.sock")).status().code() == StatusCode::kNotFound);
  CHECK(caller.Ask(*caller.To(directory / "none.sock")).status().code() == StatusCode::kNotFound);
  CHECK(caller.Ask(*caller.To(directory / std::string(200, 'x'))).status().code() == StatusCode::kUnavailable);
}

TEST_CASE("a control socket that hangs, or sends a byte now and then, has its time and no more") {
  const TemporaryDirectory directory;
  FakeJobSocket hangs(directory / "hangs.sock", [](const std::string&) { return std::string(); });
  FakeJobSocket drips(
      directory / "drips.sock", [](const std::string&) { return HttpOk(std::string(10000, 'x')); }, 20ms);
  Caller caller;
  CHECK(caller.Ask(*caller.To(directory / "hangs.sock"), 100ms).status().code() == StatusCode::kTimedOut);
  CHECK(caller.Ask(*caller.To(directory / "drips.sock"), 300ms).status().code() == StatusCode::kTimedOut);
}

TEST_CASE("an answer without end, or that is no HTTP, is refused, and the next question is asked anew") {
  const TemporaryDirectory directory;
  std::atomic<int> asked{0};
  FakeJobSocket server(directory / "a.sock", [&](const std::string&) {
    switch (asked++) {
      case 0: return HttpOk(std::string(100000, 'x'));
      case 1: return std::string("garbage\r\n\r\n\r\n");
      case 2: return "HTTP/1.1 200 OK\r\nX: " + std::string(100000, 'x') + "\r\n\r\n";
      default: return HttpOk("fine");
    }
  });
  Caller caller;
  const auto connection = caller.To(directory / "a.sock");
  CHECK(caller.Ask(*connection, 60s, 1000).status().code() == StatusCode::kExhausted);
  CHECK(caller.Ask(*connection).status().code() == StatusCode::kUnavailable);
  CHECK(caller.Ask(*connection).status().code() == StatusCode::kUnavailable);
  CHECK(caller.Ask(*connection).value().body == "fine");
}

TEST_CASE("a closed connection gets no answer") {
  const TemporaryDirectory directory;
  std::promise<void> closed;
  FakeJobSocket server(directory / "a.sock", [is_closed = closed.get_future().share()](const std::string&) {
    is_closed.wait();
    return HttpOk("late");
  });
  Caller caller;
  const auto connection = caller.To(directory / "a.sock");
  bool was_answered = false;
  connection->Get("/x", 60s, 1000, [&](const Result<http::Reply>&) { was_answered = true; });
  caller.loop.poll();
  connection->Close();
  closed.set_value();
  REQUIRE(testing::Eventually([&] {
    caller.loop.poll();
    return connection.use_count() == 1;
  }));
  CHECK_FALSE(was_answered);
}

TEST_CASE("the end of the process that listens is known by the connection alone") {
  const TemporaryDirectory directory;
  const int listener = testing::ListenAt(directory / "a.sock");
  ::listen(listener, 8);
  const testing::Child child([&] {
    ::listen(listener, 8);  // by this process from now on
    testing::ServeAt(listener, [](const std::string&) { return HttpOk(""); });
  });
  ::close(listener);
  Caller caller;
  const auto connection = caller.To(directory / "a.sock");
  REQUIRE(testing::Eventually([&] {
    (void)caller.Ask(*connection);
    connection->Close();
    return connection->server() != nullptr && connection->server()->peer.pid == child.pid();
  }));
  const base::UniqueFd pidfd = connection->TakePidfd();
  if (!pidfd.valid()) return;  // a kernel before 6.5
  pollfd ended{pidfd.get(), POLLIN, 0};
  CHECK(::poll(&ended, 1, 0) == 0);
  child.Send(SIGKILL);
  CHECK(testing::Eventually([&] { return ::poll(&ended, 1, 0) == 1; }));
}

}  // namespace
}  // namespace stepwatch::operations
