// `stepwatch incidents`: what is open, what was, and what becomes of it.
#pragma once

#include <cstdint>
#include <string>

namespace stepwatch::cli {

struct IncidentsArguments {
  std::string run;  // the beginning of an id is enough; empty: all
  bool all = false;
  bool watch = false;
  bool json = false;
  int64_t limit = 100;
  std::string stepwatchd;
};

int RunIncidents(const IncidentsArguments& arguments);

}  // namespace stepwatch::cli
