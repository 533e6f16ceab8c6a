// A training process with few descriptors, and clients that keep all the connections that they get.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "src/base/file.h"
#include "src/sockets/unix_address.h"
#include "tests/api/control_sockets.h"
#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

constexpr rlim_t kFewDescriptors = 128;
constexpr int kFilesOfTraining = 48;
constexpr int kVisitors = 200;

// In a forked child, which has one thread and allocates no memory: connects, and keeps the connections.
[[noreturn]] void VisitAndStay(const sockaddr_un& address, rlim_t limit, int report) {
  const rlimit own{limit, limit};
  (void)::setrlimit(RLIMIT_NOFILE, &own);
  for (int i = 0; i < kVisitors; ++i) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd >= 0) (void)::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  (void)!::write(report, "x", 1);
  for (;;) ::pause();
}

TEST_CASE("however many clients connect, a training process with few descriptors opens its files and is answered for") {
  const ControlSockets sockets;
  StartedJob job(ConfigText({.collect_times = 1000}));
  const http::Client client = sockets.client();
  const auto address = sockets::UnixAddress(sockets.Find().front().path);
  REQUIRE(address);
  int ends[2] = {};
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const base::UniqueFd reading(ends[0]), writing(ends[1]);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{kFewDescriptors, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const pid_t child = ::fork();
  if (child == 0) VisitAndStay(*address, before.rlim_max, ends[1]);
  char byte = 0;
  const bool has_visited = ::read(ends[0], &byte, 1) == 1;
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
  is_answered = client.Get("/v1/status", std::chrono::seconds(20)).ok();
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
