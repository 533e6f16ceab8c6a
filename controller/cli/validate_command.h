// `stepwatch validate FILE`: is this config usable, and what is odd about it.
#pragma once

#include <string>

namespace stepwatch::cli {

struct ValidateArguments {
  std::string file;
  bool json = false;
};

// 0: usable (warnings go to standard output too); 2: refused or unreadable.
int RunValidate(const ValidateArguments& arguments);

}  // namespace stepwatch::cli
