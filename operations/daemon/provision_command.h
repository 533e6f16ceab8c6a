// `stepwatchd provision DIR`.
#pragma once

#include <string>

#include "operations/provision/options.h"

namespace stepwatch::operations {

struct ProvisionArguments {
  std::string directory;
  ProvisionOptions options;
  bool is_forced = false;
};

// Prints one line for each file. Returns 0 if all files are as the options require, 1 if one cannot be written, 2 for
// an invalid option, 3 if files that a person edited were kept.
int RunProvision(const ProvisionArguments& arguments);

}  // namespace stepwatch::operations
