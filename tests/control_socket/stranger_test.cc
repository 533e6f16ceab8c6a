// A second user of the machine before somebody else's control socket: real processes of another uid, and directories
// that are swapped while the control socket is opened.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>

#include "controller/control_socket/find_jobs.h"
#include "src/sockets/unix_address.h"
#include "tests/control_socket/test_server.h"
#include "tests/hooked_files.h"

namespace stepwatch::control_socket {
namespace {

constexpr uid_t kOtherUser = 54321;

bool CanBecomeAnother() {
  if (::geteuid() == 0) return true;
  WARN("only root can become another user: nothing is shown here");
  return false;
}

// The exit code of a process of another user.
int ExitCodeAsOther(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(kOtherUser, kOtherUser, kOtherUser) != 0 ||
        ::setresuid(kOtherUser, kOtherUser, kOtherUser) != 0)
      ::_exit(100);
    ::_exit(action());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

// 0: refused for want of permission.
int Refused(int result) {
  return result != 0 && errno == EACCES ? 0 : 1;
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
  CHECK(ExitCodeAsOther([&] { return Refused(Connect(path, &fd)); }) == 0);
  CHECK(ExitCodeAsOther([&] { return ::opendir(server.runtime.c_str()) == nullptr && errno == EACCES ? 0 : 1; }) == 0);
  CHECK(ExitCodeAsOther([&] { return Refused(::unlink(path.c_str())); }) == 0);
  CHECK(ExitCodeAsOther([&] { return Refused(::rename(path.c_str(), (path + "x").c_str())); }) == 0);
  CHECK(ExitCodeAsOther(
            [&] { return ::open((server.runtime + "/x").c_str(), O_CREAT | O_WRONLY, 0600) < 0 ? 0 : 1; }) == 0);
  CHECK(ExitCodeAsOther([&] {
          return ::rename(server.runtime.c_str(), (server.runtime + "x").c_str()) != 0 && errno == EPERM ? 0 : 1;
        }) == 0);
  CHECK(server.client().Get("/v1/status").value().status == 200);
}

TEST_CASE("a second user who gets as far as the socket hears that the job is not his, whatever he asks") {
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
    CHECK(ExitCodeAsOther([&] {
            base::UniqueFd fd;
            if (Connect(path, &fd) != 0) return 2;
            const std::string text = std::string(question) + " HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
            (void)::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
            char heard[12];
            if (::recv(fd.get(), heard, sizeof heard, MSG_WAITALL) != sizeof heard) return 3;
            return std::string(heard, sizeof heard) == "HTTP/1.1 403" ? 0 : 4;
          }) == 0);
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
  size_t told = 0;
  for (const auto& [why, fake] : fakes) {
    REQUIRE(ExitCodeAsOther(
                [&, &make = fake] { return make() == 0 && ChangePlaces(stolen, server.runtime) ? 0 : 1; }) == 0);
    REQUIRE(Eventually([&] { return server.Troubles().size() > told; }));
    CHECK(Has(server.Troubles().back(), why));
    CHECK(server.server->path().empty());
    CHECK(FindJobs({.directories = {server.runtime}}).empty());
    REQUIRE(ChangePlaces(stolen, server.runtime));
    REQUIRE(std::remove(stolen.c_str()) == 0);
    CHECK(Eventually([&] { return !server.server->path().empty(); }));
    CHECK(server.client().Get("/v1/status").value().status == 200);
    CHECK(server.Troubles().size() == ++told);
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
