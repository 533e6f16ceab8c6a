// `stepwatchd run`: the daemon itself, until SIGTERM or SIGINT.
#pragma once

#include <string>

namespace stepwatch::operations {

struct RunArguments {
  std::string config;  // stepwatchd.json; empty: defaults
  std::string state;   // directory; empty: STATE_DIRECTORY, or ~/.local/state/stepwatchd
  std::string socket;  // empty: stepwatchd.sock in the runtime directory
};

// Returns 0 after a clean end, 1 if it cannot start, 2 if the settings cannot be used.
int RunDaemon(const RunArguments& arguments);

}  // namespace stepwatch::operations
