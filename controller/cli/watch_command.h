// `stepwatch watch FILE`: the real watcher on one file, its findings on standard output.
#pragma once

#include <string>

namespace stepwatch::cli {

struct WatchArguments {
  std::string file;
  bool json = false;
  double for_seconds = 0;  // not positive: no limit
  bool poll_only = false;
};

// Prints one line an event, flushed at once, until SIGINT, SIGTERM or the time is over. The exit code: 0, or 1 if
// standard output cannot be written to.
int RunWatch(const WatchArguments& arguments);

}  // namespace stepwatch::cli
