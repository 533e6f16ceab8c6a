// Another user at the control socket: turned away, or let in to read as one of a group.
#include <sys/wait.h>

#include "controller/control_socket/find_jobs.h"
#include "src/http/client.h"
#include "src/sockets/peer.h"
#include "src/sockets/runtime_directory.h"
#include "src/sockets/unix_listener.h"
#include "tests/control_socket/other_user.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

constexpr gid_t kReaders = 34567, kOthers = 45678;

std::string Summary(const Result<http::Reply>& reply) {
  return reply.ok() ? std::to_string(reply.value().status) + " " + reply.value().body : reply.status().message();
}

struct SharedSocket {
  explicit SharedSocket(const std::string& group = std::to_string(kReaders)) {
    server = std::make_unique<TestServer>([&](ServerOptions* options) { options->readers = group; });
    REQUIRE(::chmod(server->directory.path().c_str(), 0711) == 0);
    path = server->Path();
  }
  std::string Ask(const std::vector<gid_t>& groups, const std::string& method, const std::string& target) const {
    return testing::AsOtherUser(groups, [&] { return Summary(http::Client(path, 0).Ask(method, target, "{}")); });
  }

  std::unique_ptr<TestServer> server;
  std::string path;
};

TEST_CASE("a user of the readers' group reads what GET answers and changes nothing") {
  if (!testing::CanBecomeAnother()) return;
  const SharedSocket shared;
  CHECK(Has(shared.Ask({kOthers, kReaders}, "GET", "/v1/status"), "200 {\"version\":1"));
  CHECK(Has(shared.Ask({kReaders}, "GET", "/metrics"), "200 # HELP"));
  const std::string refused = shared.Ask({kReaders}, "POST", "/v1/validate");
  CHECK(Has(refused, "403 "));
  CHECK(Has(refused, "POST is reserved for the user that runs the job"));
  struct stat about {};
  REQUIRE(::lstat(shared.path.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0660);
  CHECK(about.st_gid == kReaders);
  REQUIRE(::lstat(shared.server->runtime.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0710);
  CHECK(about.st_gid == kReaders);
}

TEST_CASE("a user outside the group does not even reach the socket") {
  if (!testing::CanBecomeAnother()) return;
  const SharedSocket shared;
  CHECK(Has(shared.Ask({kOthers}, "GET", "/v1/status"), "Permission denied"));
  const TestServer closed;
  REQUIRE(::chmod(closed.directory.path().c_str(), 0711) == 0);
  const std::string path = closed.Path();
  CHECK(Has(testing::AsOtherUser({kReaders}, [&] { return Summary(http::Client(path, 0).Get("/v1/status")); }),
            "Permission denied"));
}

TEST_CASE("a reader finds the job in a directory that was named, and not otherwise") {
  if (!testing::CanBecomeAnother()) return;
  const SharedSocket shared;
  const std::string directory = shared.server->runtime;
  const auto find = [&](const std::string& named) {
    return testing::AsOtherUser({kReaders}, [&] {
      std::string text;
      for (const FoundJob& job : FindJobs({.directories = {directory}, .named = named}))
        text += job.path + " of " + std::to_string(job.uid) + " " + job.status + job.why;
      return text;
    });
  };
  CHECK(Has(find(directory), shared.path + " of 0 {\"version\":1"));
  CHECK(find("").empty());
  const std::string at = testing::AsOtherUser({kReaders}, [&] {
    const auto found = FindJobAt(shared.path, {});
    return found.ok() && found.value() ? found.value()->status : found.status().ToString();
  });
  CHECK(Has(at, "{\"version\":1"));
}

TEST_CASE("a server of another user than expected is not asked") {
  if (!testing::CanBecomeAnother()) return;
  // The stranger serves, and a third user connects who trusts somebody else.
  testing::TemporaryDirectory directory;
  REQUIRE(::chmod(directory.path().c_str(), 0711) == 0);
  const std::string runtime = directory / "run";
  REQUIRE(::mkdir(runtime.c_str(), 0755) == 0);
  REQUIRE(::chown(runtime.c_str(), testing::kOtherUser, testing::kOtherUser) == 0);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t server = ::fork();
  if (server == 0) {
    (void)!::setresuid(testing::kOtherUser, testing::kOtherUser, testing::kOtherUser);
    auto& files = base::FileSystem::Real();
    auto listener = sockets::UnixListener::Open(runtime, 7, files);
    (void)!::chmod(listener.value().path().c_str(), 0666);
    (void)!::write(ends[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ends[0], &byte, 1) == 1);
  const std::string path = runtime + "/7-1.sock";
  const auto ask = [&](uid_t self, uid_t trusted) {
    const pid_t child = ::fork();
    if (child == 0) {
      (void)!::setresuid(self, self, self);
      const auto reply = http::Client(path, trusted).Get("/v1/status", 50ms);
      ::_exit(Has(reply.status().message(), "served by another user, uid 54321") ? 1 : 2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  CHECK(ask(testing::kOtherUser + 1, testing::kOtherUser + 1) == 1);
  CHECK(ask(testing::kOtherUser + 1, testing::kOtherUser + 2) == 1);
  CHECK(ask(testing::kOtherUser + 1, testing::kOtherUser) == 2);  // nobody answers in time
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
}

TEST_CASE("an unknown group leaves the control socket to its owner, with a note") {
  const SharedSocket shared("no-such-group");
  REQUIRE(shared.server->Notes().size() == 1);
  CHECK(shared.server->Notes()[0] == "the control socket admits no readers' group: unknown group no-such-group");
  struct stat about {};
  REQUIRE(::lstat(shared.path.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
}

TEST_CASE("readers that use all their connections leave the owner's free") {
  std::atomic<bool> is_reader{true};
  TestServer server([&](ServerOptions* options) {
    options->limits.connections = 2;
    options->readers = std::to_string(::getegid());
    options->credentials_of = [&](int) {
      return std::optional<sockets::Peer>(is_reader ? sockets::Peer{1, testing::kOtherUser, {::getegid()}}
                                                    : sockets::Peer{1, ::geteuid()});
    };
  });
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 2; ++i) {
    crowd.push_back(std::make_unique<RawClient>(server.Path()));
    REQUIRE(crowd.back()->Send("GET /v1/events HTTP/1.1\r\n\r\n"));
    CHECK(Has(crowd.back()->ReceiveUntil("\r\n\r\n"), "200 OK"));
  }
  CHECK(server.client().Get("/v1/status").value().status == 503);
  is_reader = false;
  CHECK(server.client().Get("/v1/status").value().status == 200);
}

TEST_CASE("two groups do not share a directory") {
  if (!testing::CanBecomeAnother()) return;
  const SharedSocket first;
  TestServer second([&](ServerOptions* options) {
    options->directories = {first.server->runtime};
    options->readers = std::to_string(kOthers);
  });
  const std::string path = second.Path();
  REQUIRE(second.Notes().size() == 1);
  CHECK(Has(second.Notes()[0], "is shared with group 34567 for other jobs"));
  CHECK(Has(testing::AsOtherUser({kReaders}, [&] { return Summary(http::Client(path, 0).Get("/v1/status")); }),
            "Permission denied"));
  CHECK(Has(first.Ask({kReaders}, "GET", "/v1/status"), "200 "));
  CHECK(FindJobs({.directories = {first.server->runtime}}).size() == 2);
}

TEST_CASE("a directory where anybody could put a socket is not looked into, named or not") {
  testing::TemporaryDirectory directory;
  REQUIRE(::chmod(directory.path().c_str(), 01777) == 0);
  const auto owner = sockets::OwnerOfRuntimeDirectory(directory.path());
  REQUIRE_FALSE(owner.ok());
  CHECK(Has(owner.status().message(), "other users could have put a socket there"));
  CHECK_FALSE(FindJobAt(directory / "7-1.sock", {}).ok());
}

}  // namespace
}  // namespace stepwatch::control_socket
