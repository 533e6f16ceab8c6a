#include "front_ends/shared/signal_recorder.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>

#include "stepwatch/monitor.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::front_end {
namespace {

using testing::TemporaryDirectory;

volatile sig_atomic_t handled = 0;
void Handle(int number) {
  handled = number;
}

// A fault of the processor, not one that a sanitizer sees before.
[[gnu::noinline]] __attribute__((no_sanitize("address", "undefined", "thread"))) void Fault() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

std::unique_ptr<Monitor> Made(const TemporaryDirectory& directory) {
  testing::WriteByRename(directory / "config.json", "{\"targets\": {}, \"dynamic_on\": false}");
  Options options;
  options.config_path = directory / "config.json";
  options.output_dir = directory / "out";
  options.dynamic = true;
  options.control_socket = false;
  options.on_event = [](const Event&) {};
  auto created = Monitor::Create(std::move(options));
  return created.ok() ? std::move(created).value() : nullptr;
}

// How a process ends that does this.
int EndOf(const std::function<void()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The test's own framework has handlers, too.
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGABRT, SIGSEGV, SIGQUIT, SIGFPE, SIGILL})
      ::signal(number, SIG_DFL);
    work();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

// In a process of its own, with a monitor that records signals.
int EndWithMonitor(const std::function<void(Monitor*)>& work, const std::function<void()>& before = {}) {
  const TemporaryDirectory directory;
  return EndOf([&] {
    if (before) before();
    const std::unique_ptr<Monitor> monitor = Made(directory);
    if (monitor == nullptr) ::_exit(99);
    RecordSignals(monitor.get());
    work(monitor.get());
    ForgetSignals(monitor.get());
  });
}

TEST_CASE("the default action of a signal still ends the process, by that signal") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGABRT, SIGSEGV, SIGQUIT}) {
    const int status = EndWithMonitor([number](Monitor*) { ::raise(number); });
    CAPTURE(number, status);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
  }
}

TEST_CASE("a fault of the program ends it as a fault, and abort as an abort") {
  CHECK(WTERMSIG(EndWithMonitor([](Monitor*) { std::abort(); })) == SIGABRT);
  const int status = EndWithMonitor([](Monitor*) { Fault(); });
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("a handler that was there runs, as often as before, and the process goes on") {
  const int status = EndWithMonitor(
      [](Monitor*) {
        for (int i = 0; i < 3; ++i) {
          handled = 0;
          ::raise(SIGTERM);
          if (handled != SIGTERM) ::_exit(1);
        }
      },
      [] { ::signal(SIGTERM, &Handle); });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a signal that is ignored stays so, and a handler that comes later takes its place") {
  const int status = EndWithMonitor(
      [](Monitor*) {
        ::raise(SIGHUP);
        struct sigaction action {};
        ::sigaction(SIGHUP, nullptr, &action);
        if (action.sa_handler != SIG_IGN) ::_exit(1);
        ::signal(SIGTERM, &Handle);
        ::raise(SIGTERM);
        if (handled != SIGTERM) ::_exit(2);
      },
      [] { ::signal(SIGHUP, SIG_IGN); });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("signals after the monitor is gone do what they did before it") {
  const TemporaryDirectory directory;
  const int status = EndOf([&] {
    ::signal(SIGUSR1, &Handle);
    {
      const std::unique_ptr<Monitor> monitor = Made(directory);
      RecordSignals(monitor.get());
      ForgetSignals(monitor.get());
    }
    ::raise(SIGUSR1);
    if (handled != SIGUSR1) ::_exit(1);
    ::raise(SIGTERM);
  });
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("a forked child of a process with a monitor dies of a signal as it would have") {
#ifdef __SANITIZE_THREAD__
  return;  // it puts a signal off until an intercepted call, and intercepts none in the child of a process with threads
#endif
  const int status = EndWithMonitor([](Monitor*) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::raise(SIGTERM);
      ::_exit(0);
    }
    int of_child = 0;
    ::waitpid(child, &of_child, 0);
    if (!WIFSIGNALED(of_child) || WTERMSIG(of_child) != SIGTERM) ::_exit(1);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace stepwatch::front_end
