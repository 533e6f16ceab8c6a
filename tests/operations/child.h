// A child process of a test, killed at the end.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>

#include "operations/witness/process_ref.h"
#include "tests/eventually.h"

namespace stepwatch::testing {

class Child {
 public:
  // Runs `body` in the child, which then ends with 0.
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ > 0) return;
    body();
    ::_exit(0);
  }
  Child()
      : Child([] {
          for (;;) ::pause();
        }) {}
  ~Child() {
    if (is_reaped_) return;
    ::kill(pid_, SIGKILL);
    Reap();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  operations::ProcessRef ref() const { return {pid_, base::StatOf(pid_).value_or(base::ProcessStat()).started}; }
  void Send(int signal) const { ::kill(pid_, signal); }
  void Reap() {
    ::waitpid(pid_, nullptr, 0);
    is_reaped_ = true;
  }

 private:
  const pid_t pid_;
  bool is_reaped_ = false;
};

}  // namespace stepwatch::testing
