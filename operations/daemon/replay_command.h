// `stepwatchd replay`: passes recorded lines through the observer, in virtual time.
#pragma once

#include <string>

namespace stepwatch::operations {

struct ReplayArguments {
  std::string file;  // - is standard input
  bool json = false;
  double tail_seconds = 600;  // of time after the last line
};

// Prints each change of an incident as it happens. Invalid lines are named on standard error, counted, and skipped.
// Returns the exit status: 0 whether or not there were incidents, 2 if the file cannot be read.
int RunReplay(const ReplayArguments& arguments);

}  // namespace stepwatch::operations
