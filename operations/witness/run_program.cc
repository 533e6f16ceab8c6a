#include "operations/witness/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "src/base/file.h"

namespace stepwatch::operations {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kGraceAfterTerm{1000};

struct Pipe {
  base::UniqueFd read, write;
};

bool OpenPipe(Pipe* pipe) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  pipe->read = base::UniqueFd(ends[0]);
  pipe->write = base::UniqueFd(ends[1]);
  return ::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

std::vector<char*> Environment() {
  constexpr std::array<std::string_view, 4> kLeftOut = {"LD_PRELOAD=", "LD_AUDIT=", "PYTHONPATH=", "PYTHONHOME="};
  std::vector<char*> environment;
  for (char** each = environ; *each != nullptr; ++each)
    if (std::none_of(kLeftOut.begin(), kLeftOut.end(),
                     [&](auto name) { return std::string_view(*each).starts_with(name); }))
      environment.push_back(*each);
  environment.push_back(nullptr);
  return environment;
}

// Its own process group, so that whatever it starts ends with it; no signal of ours blocked or ignored.
int Spawn(const std::vector<std::string>& arguments, int out, int err, pid_t* pid) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<char*> environment = Environment();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = ::posix_spawn(pid, argv[0], &actions, &attributes, argv.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

// False: there is nothing more to come.
bool Take(const base::UniqueFd& from, size_t bytes_max, std::string* text, bool* is_cut) {
  std::array<char, 65536> bytes;
  for (;;) {
    const ssize_t got = ::read(from.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    const size_t room = bytes_max - std::min(bytes_max, text->size());
    text->append(bytes.data(), std::min(room, static_cast<size_t>(got)));
    *is_cut |= room < static_cast<size_t>(got);
  }
}

int Reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<ProgramOutput> RunProgram(const std::vector<std::string>& arguments, const ProgramLimits& limits) {
  Pipe out, err;
  if (!OpenPipe(&out) || !OpenPipe(&err)) return base::ErrnoStatus("cannot make a pipe for", arguments[0], errno);
  pid_t pid = -1;
  if (const int error = Spawn(arguments, out.write.get(), err.write.get(), &pid); error != 0)
    return base::ErrnoStatus("cannot start", arguments[0], error);
  out.write.Reset();
  err.write.Reset();
  ProgramOutput output;
  auto deadline = Clock::now() + limits.time;
  std::array<pollfd, 2> open{pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0}};
  while (open[0].fd >= 0 || open[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      ::kill(-pid, output.timed_out ? SIGKILL : SIGTERM);
      if (output.timed_out) break;  // whoever keeps the pipe open now is not waited for
      output.timed_out = true;
      deadline = Clock::now() + kGraceAfterTerm;
      continue;
    }
    (void)::poll(open.data(), open.size(), static_cast<int>(left));
    if (open[0].fd >= 0 && !Take(out.read, limits.bytes_max, &output.out, &output.is_cut)) open[0].fd = -1;
    if (open[1].fd >= 0 && !Take(err.read, limits.bytes_max, &output.err, &output.is_cut)) open[1].fd = -1;
  }
  output.exit_code = Reap(pid);
  return output;
}

}  // namespace stepwatch::operations
