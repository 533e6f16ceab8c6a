// Ends a verb in order at Ctrl-C or SIGTERM.
#pragma once

#include <csignal>

namespace stepwatch::cli {

// A signal handler can reach only a global.
inline volatile std::sig_atomic_t interrupted = 0;

// During its lifetime both signals set `interrupted` and have no other effect.
class StopOnSignals {
 public:
  StopOnSignals() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    ::sigaction(SIGINT, &action, &old_int_);
    ::sigaction(SIGTERM, &action, &old_term_);
  }
  ~StopOnSignals() {
    ::sigaction(SIGINT, &old_int_, nullptr);
    ::sigaction(SIGTERM, &old_term_, nullptr);
  }
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace stepwatch::cli
