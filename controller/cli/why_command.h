// `stepwatch why`: one screen on what happened to a run.
#pragma once

#include <string>

namespace stepwatch::cli {

struct WhyArguments {
  std::string run;  // the beginning of its id is enough; empty: the run with the worst incident that is open
  bool stacks = false;
  bool json = false;
  std::string stepwatchd;
};

int RunWhy(const WhyArguments& arguments);

}  // namespace stepwatch::cli
