// `stepwatch top [JOB]`: the latest values of a running job, live.
#pragma once

#include <string>

#include "controller/cli/top_choice.h"

namespace stepwatch::cli {

struct TopArguments {
  std::string job;   // as FindJob takes it
  std::string kind;  // of sites; empty: the first with values
  TopChoice choice;
  double interval_seconds = 1;
  bool once = false;
  bool json = false;
};

// 0: left by the watcher, or printed once; 2: several jobs could be meant; 6: there is no such job, or it has ended;
// 130: interrupted.
int RunTop(const TopArguments& arguments);

}  // namespace stepwatch::cli
