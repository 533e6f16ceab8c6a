// What a signal means for a run.
#pragma once

#include <csignal>
#include <cstdint>

namespace stepwatch::operations {

// A scheduler or a person asks a process to end: it may save itself, and then does.
inline bool AsksToEnd(int64_t number) {
  return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT || number == SIGUSR1 ||
         number == SIGUSR2 || number == SIGXCPU;
}

// The process has done what it must not.
inline bool IsCrash(int64_t number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGABRT;
}

}  // namespace stepwatch::operations
