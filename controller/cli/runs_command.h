// `stepwatch runs`: the runs that stepwatchd knows.
#pragma once

#include <string>

namespace stepwatch::cli {

struct RunsArguments {
  bool json = false;
  bool all = false;  // also those that have ended, with nothing open
  std::string stepwatchd;
};

int RunRuns(const RunsArguments& arguments);

}  // namespace stepwatch::cli
