#include "controller/control_socket/find_jobs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "src/sockets/unix_address.h"
#include "tests/control_socket/test_server.h"

namespace stepwatch::control_socket {
namespace {

// A socket that never answers.
base::UniqueFd BindDeafSocket(const std::string& path) {
  base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  const auto address = sockets::UnixAddress(path);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0);
  return socket;
}

// The pid of a process that has ended.
pid_t DeadPid() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_CASE("jobs are found in all directories, and asked") {
  TestServer first, second;
  status::JobStatus status;
  status.monitor.step = 5;
  first.job->SetStatus(status);
  first.Path(), second.Path();
  const auto jobs = FindJobs({.directories = {first.runtime, "/nowhere", second.runtime}});
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].pid == ::getpid());
  CHECK(jobs[0].name == std::to_string(::getpid()) + "-1");
  CHECK(json::Parse(jobs[0].status).value()["step"] == 5);
  CHECK(jobs[1].path == second.Path());
}

TEST_CASE("the socket of a dead process is removed, that of a living one stays") {
  testing::TemporaryDirectory directory;
  const std::string dead = directory / (std::to_string(DeadPid()) + "-1.sock");
  const std::string temporary = directory / ("." + std::to_string(DeadPid()) + "-0000abcd");
  const std::string alive = directory / (std::to_string(::getpid()) + "-1.sock");
  for (const std::string& path : {dead, temporary, alive}) (void)BindDeafSocket(path);
  testing::WriteInPlace(directory / "1-1.sock", "no socket");
  testing::WriteInPlace(directory / "notes.txt", "nothing of ours");
  CHECK(FindJobs({.directories = {directory.path()}}).empty());
  CHECK(::access(dead.c_str(), F_OK) != 0);
  CHECK(::access(temporary.c_str(), F_OK) != 0);
  CHECK(::access(alive.c_str(), F_OK) == 0);
  CHECK(testing::EntriesOf(directory.path()) == 3);
}

TEST_CASE("a job that does not answer is listed with the reason, after a limited wait") {
  testing::TemporaryDirectory directory;
  const std::string path = directory / (std::to_string(::getpid()) + "-1.sock");
  const base::UniqueFd listener = BindDeafSocket(path);
  REQUIRE(::listen(listener.get(), 1) == 0);
  const auto jobs = FindJobs({.directories = {directory.path()}, .answer_time = 50ms});
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].status.empty());
  CHECK(Has(jobs[0].why, "has not answered in time"));
}

TEST_CASE("a directory that others can enter is skipped") {
  TestServer server;
  server.Path();
  REQUIRE(::chmod(server.runtime.c_str(), 0755) == 0);
  CHECK(FindJobs({.directories = {server.runtime}}).empty());
}

TEST_CASE("a process is dead when it has ended, also before its parent has waited for it") {
  CHECK_FALSE(IsDead(::getpid()));
  CHECK(IsDead(DeadPid()));
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  CHECK(Eventually([&] { return IsDead(zombie); }));
  ::waitpid(zombie, nullptr, 0);
}

}  // namespace
}  // namespace stepwatch::control_socket
