// Classifies signals by their effect on a run.
#pragma once

#include <csignal>
#include <cstdint>

namespace stepwatch::operations {

// The signal requests the end of a process, which may save its state and then exits.
inline bool EndsProcess(int64_t number) {
  return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT || number == SIGUSR1 ||
         number == SIGUSR2 || number == SIGXCPU;
}

// The signal reports a fault of the process itself.
inline bool IsCrash(int64_t number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGABRT;
}

}  // namespace stepwatch::operations
