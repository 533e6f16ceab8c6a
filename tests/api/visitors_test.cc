// A training process with few descriptors, and people who take all the connections that they get.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "controller/control_socket/find_jobs.h"
#include "src/base/file.h"
#include "src/http/client.h"
#include "src/sockets/unix_address.h"
#include "tests/api/job.h"
#include "tests/variable.h"

namespace stepwatch::testing {
namespace {

constexpr rlim_t kFewDescriptors = 128;
constexpr int kFilesOfTraining = 48;
constexpr int kVisitors = 200;

// In a forked child, which has one thread and takes no memory: connects, and keeps what it gets.
[[noreturn]] void VisitAndStay(const sockaddr_un& address, rlim_t limit, int said) {
  const rlimit own{limit, limit};
  (void)::setrlimit(RLIMIT_NOFILE, &own);
  for (int i = 0; i < kVisitors; ++i) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd >= 0) (void)::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  (void)!::write(said, "x", 1);
  for (;;) ::pause();
}

TEST_CASE("whoever visits a training process with few descriptors, it opens its files and is answered for") {
  const TemporaryDirectory directory;
  const Variable variable{"STEPWATCH_RUNTIME_DIR", directory / "run"};
  Job job(ConfigText({.collect_times = 1000}));
  job.Start();
  std::string socket;
  REQUIRE(Eventually([&] {
    const auto found = control_socket::FindJobs({.directories = {directory / "run"}});
    if (found.size() == 1) socket = found.front().path;
    return !socket.empty();
  }));
  const auto address = sockets::UnixAddress(socket);
  REQUIRE(address);
  int said[2] = {};
  REQUIRE(::pipe2(said, O_CLOEXEC) == 0);
  const base::UniqueFd heard(said[0]), saying(said[1]);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{kFewDescriptors, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const pid_t child = ::fork();
  if (child == 0) VisitAndStay(*address, before.rlim_max, said[1]);
  char byte = 0;
  const bool has_visited = ::read(said[0], &byte, 1) == 1;
  int opened = 0;
  bool is_answered = false;
  for (int step = 0; step < 50 && opened == step * kFilesOfTraining; ++step) {
    std::vector<base::UniqueFd> files;
    for (int i = 0; i < kFilesOfTraining; ++i) {
      files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      opened += files.back().valid() ? 1 : 0;
    }
    job.TrainStep();
  }
  is_answered = http::Client(socket).Get("/v1/status", std::chrono::seconds(20)).ok();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(has_visited);
  CHECK(opened == 50 * kFilesOfTraining);
  CHECK(is_answered);
  job.Close();
}

}  // namespace
}  // namespace stepwatch::testing
