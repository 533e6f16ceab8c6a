#include "operations/witness/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

// Starts the program; made before the fork, because no memory may be allocated between that and an exec.
class Start {
 public:
  explicit Start(const std::vector<std::string>& arguments) {
    for (const std::string& argument : arguments) argv_.push_back(const_cast<char*>(argument.c_str()));
    argv_.push_back(nullptr);
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    // In the program no signal is blocked or ignored.
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~Start() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  int Spawn(pid_t* pid) const {
    return ::posix_spawn(pid, argv_[0], &actions_, &attributes_, argv_.data(), environment_.data());
  }

 private:
  std::vector<char*> argv_;
  std::vector<char*> environment_ = Environment();
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

int CodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// The guard: a process between this one and the program, the leader of the group in which the program and all its
// children run. It waits for the program, and ends with its exit code. When the other end of `life` is closed, which a
// kill of stepwatchd does as well, it kills the group, itself included. `report` receives the error of the start, and
// is held open until the guard ends. Calls only functions that are allowed after a fork of a process with several
// threads.
[[noreturn]] void Guard(const Start& start, int life, int out, int err, int report) {
  constexpr int kLife = 0, kOut = 1, kErr = 2, kReport = 3, kAboveAll = 10;
  std::array<int, 4> ends{life, out, err, report};
  for (int& end : ends) end = ::fcntl(end, F_DUPFD, kAboveAll);
  for (int i = kLife; i <= kReport; ++i) (void)::dup2(ends[static_cast<size_t>(i)], i);
  (void)::close_range(kReport + 1, ~0U, 0);
  (void)::setpgid(0, 0);
  (void)::prctl(PR_SET_NAME, "stepwatchd-tool");
  sigset_t all;
  ::sigfillset(&all);
  (void)::sigprocmask(SIG_BLOCK, &all, nullptr);
  pid_t pid = -1;
  const int error = start.Spawn(&pid);
  (void)!::write(kReport, &error, sizeof error);
  if (error != 0) ::_exit(127);
  (void)::close(kOut);
  (void)::close(kErr);
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  std::array<pollfd, 2> waits{pollfd{kLife, POLLIN, 0}, pollfd{pidfd, POLLIN, 0}};
  for (;;) {
    constexpr int kMillisecondsWithoutPidfd = 20;
    (void)::poll(waits.data(), waits.size(), pidfd < 0 ? kMillisecondsWithoutPidfd : -1);
    if (waits[0].revents != 0) ::kill(0, SIGKILL);
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) ::_exit(CodeOf(status));
  }
}

// False: no more output will come.
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

// A running program with its guard. No process of its group is left when this is destroyed.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments) {
    if (!OpenPipe(&out_) || !OpenPipe(&err_) || !OpenPipe(&life_) || !OpenPipe(&report_)) {
      error_ = errno;
      return;
    }
    const Start start(arguments);
    pid_ = ::fork();
    if (pid_ == 0) Guard(start, life_.read.get(), out_.write.get(), err_.write.get(), report_.write.get());
    if (pid_ < 0) error_ = errno;
    if (pid_ > 0) (void)::setpgid(pid_, pid_);
    for (Pipe* pipe : {&out_, &err_, &report_}) pipe->write.Reset();
    life_.read.Reset();
  }
  ~Child() { (void)End(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int error() const { return error_; }
  // False: it has ended, or `time` has passed, or `stop_fd` is readable.
  bool Follow(Clock::time_point deadline, size_t bytes_max, int stop_fd, ProgramOutput* output) {
    std::array<pollfd, 4> open{pollfd{out_.read.get(), POLLIN, 0}, pollfd{err_.read.get(), POLLIN, 0},
                               pollfd{report_.read.get(), POLLIN, 0}, pollfd{stop_fd, POLLIN, 0}};
    while (report_.read.valid()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return false;
      (void)::poll(open.data(), open.size(), static_cast<int>(left));
      if (open[3].revents != 0) return false;
      if (open[0].fd >= 0 && !Take(out_.read, bytes_max, &output->out, &output->is_cut)) open[0].fd = -1;
      if (open[1].fd >= 0 && !Take(err_.read, bytes_max, &output->err, &output->is_cut)) open[1].fd = -1;
      TakeReport();
    }
    // Its last output may have come after the check; a process that it left behind is not waited for.
    (void)Take(out_.read, bytes_max, &output->out, &output->is_cut);
    (void)Take(err_.read, bytes_max, &output->err, &output->is_cut);
    return true;
  }
  void Terminate() const { ::kill(-pid_, SIGTERM); }
  // Kills remaining processes, and returns the exit code of the program.
  int End() {
    if (pid_ <= 0) return code_;
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return code_ = CodeOf(status);
  }

 private:
  void TakeReport() {
    int error = 0;
    const ssize_t got = ::read(report_.read.get(), &error, sizeof error);
    if (got == static_cast<ssize_t>(sizeof error)) error_ = error;
    if (got == 0) report_.read.Reset();
  }

  Pipe out_, err_;
  Pipe life_;    // held open by this process alone
  Pipe report_;  // held open by the guard alone
  pid_t pid_ = -1;
  int error_ = 0;
  int code_ = 0;
};

}  // namespace

Result<ProgramOutput> RunProgram(const std::vector<std::string>& arguments, const ProgramLimits& limits) {
  Child program(arguments);
  if (program.error() != 0) return base::ErrnoStatus("cannot start", arguments[0], program.error());
  ProgramOutput output;
  if (!program.Follow(Clock::now() + limits.time, limits.bytes_max, limits.stop_fd, &output)) {
    output.timed_out = true;
    program.Terminate();
    (void)program.Follow(Clock::now() + kGraceAfterTerm, limits.bytes_max, limits.stop_fd, &output);
  }
  output.exit_code = program.End();
  if (program.error() != 0) return base::ErrnoStatus("cannot start", arguments[0], program.error());
  return output;
}

}  // namespace stepwatch::operations
