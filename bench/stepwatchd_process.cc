#include "bench/stepwatchd_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "src/http/client.h"

namespace stepwatch::bench {
namespace {

constexpr int kLooksMax = 600, kLookMs = 100;

int CountOf(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

StepwatchdProcess::StepwatchdProcess(const std::string& program, const std::string& directory)
    : socket_(directory + "/d.sock") {
  std::string state = directory + "/state", socket = socket_, name = program;
  std::array<char*, 7> arguments = {name.data(),  const_cast<char*>("run"),      const_cast<char*>("--state"),
                                    state.data(), const_cast<char*>("--socket"), socket.data(),
                                    nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (directory + "/log").c_str(), O_WRONLY | O_CREAT, 0600);
  const int failed = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + program);
}

StepwatchdProcess::~StepwatchdProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void StepwatchdProcess::AwaitRuns(int runs) const {
  for (int look = 0; look < kLooksMax; ++look) {
    const auto reply = http::Client(socket_).Get("/v1/runs");
    if (reply.ok() && CountOf(reply.value().body, "\"restarts\"") >= runs) return;
    (void)::poll(nullptr, 0, kLookMs);
  }
  throw std::runtime_error("stepwatchd has not found the jobs of this benchmark");
}

void StepwatchdProcess::Hang() const {
  ::kill(pid_, SIGSTOP);
}

}  // namespace stepwatch::bench
