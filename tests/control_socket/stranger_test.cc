// A second user of the machine at the control socket of the first: real processes of another uid, and directories
// that are swapped while the control socket is opened.
#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <cstdio>

#include "controller/control_socket/find_jobs.h"
#include "src/sockets/unix_address.h"
#include "tests/control_socket/other_user.h"
#include "tests/control_socket/test_server.h"
#include "tests/hooked_files.h"

namespace stepwatch::control_socket {
namespace {

using testing::CanBecomeAnother;
using testing::HoldsForOtherUser;

bool IsDenied(int result) {
  return result != 0 && errno == EACCES;
}

int Connect(const std::string& path, base::UniqueFd* fd) {
  *fd = base::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = sockets::UnixAddress(path);
  return ::connect(fd->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
}

TEST_CASE(
    "a second user can neither look into the directory of a control socket nor reach, remove or replace its socket") {
  if (!CanBecomeAnother()) return;
  const mode_t before = ::umask(0);  // what is made must not depend on it
  TestServer server;
  const std::string path = server.Path();
  ::umask(before);
  REQUIRE(::chmod(server.directory.path().c_str(), 01777) == 0);  // as /tmp is
  base::UniqueFd fd;
  const std::string moved = server.runtime + "x", file = server.runtime + "/x";
  CHECK(HoldsForOtherUser([&] { return IsDenied(Connect(path, &fd)); }));
  CHECK(HoldsForOtherUser([&] { return ::opendir(server.runtime.c_str()) == nullptr && errno == EACCES; }));
  CHECK(HoldsForOtherUser([&] { return IsDenied(::unlink(path.c_str())); }));
  CHECK(HoldsForOtherUser([&] { return IsDenied(::rename(path.c_str(), (path + "x").c_str())); }));
  CHECK(HoldsForOtherUser([&] { return ::open(file.c_str(), O_CREAT | O_WRONLY, 0600) < 0; }));
  CHECK(HoldsForOtherUser([&] { return ::rename(server.runtime.c_str(), moved.c_str()) != 0 && errno == EPERM; }));
  CHECK(server.client().Get("/v1/status").value().status == 200);
}

TEST_CASE("a second user who reaches the socket is refused, with any request") {
  if (!CanBecomeAnother()) return;
  TestServer server(
      [](ServerOptions* options) { options->limits.tick = 1h; });  // in which nobody sees to the directory
  const std::string path = server.Path();
  // As somebody might who wants to share it.
  REQUIRE(::chmod(server.directory.path().c_str(), 0755) == 0);
  REQUIRE(::chmod(server.runtime.c_str(), 0755) == 0);
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  for (const char* question : {"GET /v1/status", "GET /v1/events", "GET /metrics", "GET /v1/doctor",
                               "POST /v1/validate", "POST /v1/apply", "POST /v1/stop", "nonsense"}) {
    INFO(question);
    CHECK(testing::AsOtherUser({}, [&] {
            base::UniqueFd fd;
            char received[12] = {};
            const std::string text = std::string(question) + " HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
            if (Connect(path, &fd) != 0) return std::string("not connected");
            (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
            (void)::recv(fd.get(), received, sizeof received, MSG_WAITALL);
            return std::string(received, sizeof received);
          }) == "HTTP/1.1 403");
  }
  CHECK(server.client().Get("/v1/status").value().status == 200);
}

// At once: where nothing is for a moment, the control socket makes its directory anew.
bool ChangePlaces(const std::string& one, const std::string& other) {
  return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
}

TEST_CASE("a directory that another user has put in the place of ours is not used, and ours is when it is back") {
  if (!CanBecomeAnother()) return;
  TestServer server;
  (void)server.Path();
  REQUIRE(::chmod(server.directory.path().c_str(), 0777) == 0);  // anybody may rename what lies in it
  const std::string stolen = server.runtime + "-stolen";
  const std::vector<std::pair<const char*, std::function<int()>>> fakes{
      {"belongs to uid 54321", [&] { return ::mkdir(stolen.c_str(), 0700); }},
      {"is a symbolic link", [&] { return ::symlink(stolen.c_str(), stolen.c_str()); }}};
  size_t troubles = 0;
  for (const auto& [why, fake] : fakes) {
    REQUIRE(HoldsForOtherUser([&, &make = fake] { return make() == 0 && ChangePlaces(stolen, server.runtime); }));
    REQUIRE(Eventually([&] { return server.Troubles().size() > troubles; }));
    CHECK(Has(server.Troubles().back(), why));
    CHECK(server.server->path().empty());
    CHECK(FindJobs({.directories = {server.runtime}}).empty());
    REQUIRE(ChangePlaces(stolen, server.runtime));
    REQUIRE(std::remove(stolen.c_str()) == 0);
    CHECK(Eventually([&] { return !server.server->path().empty(); }));
    CHECK(server.client().Get("/v1/status").value().status == 200);
    CHECK(server.Troubles().size() == ++troubles);
  }
}

TEST_CASE("a directory that is swapped for a link between its check and the bind gets no socket") {
  struct Swap {
    testing::TemporaryDirectory elsewhere;
    std::atomic<bool> is_wanted{true};
    std::string runtime;
  } swap;
  testing::HookedFiles files([&swap](std::string_view call) {
    // The socket's mode is set just before it is bound.
    if (call != "fchmod" || !swap.is_wanted.exchange(false)) return 0;
    std::filesystem::rename(swap.runtime, swap.runtime + "-ours");
    std::filesystem::create_directory_symlink(swap.elsewhere.path(), swap.runtime);
    return 0;
  });
  const testing::TemporaryDirectory directory;
  swap.runtime = directory / "run";
  TestServer server([&](ServerOptions* options) {
    options->directories = {swap.runtime};
    options->files = &files;
  });
  REQUIRE(Eventually([&] { return !server.Troubles().empty(); }));
  CHECK(Has(server.Troubles().front(), "is a symbolic link"));
  CHECK(testing::EntriesOf(swap.elsewhere.path()) == 0);
  REQUIRE(ChangePlaces(swap.runtime + "-ours", swap.runtime));
  std::filesystem::remove(swap.runtime + "-ours");
  CHECK(server.client().Get("/v1/status").value().status == 200);
  CHECK(server.Troubles().size() == 1);
}

}  // namespace
}  // namespace stepwatch::control_socket
