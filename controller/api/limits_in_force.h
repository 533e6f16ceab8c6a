// The limits that hold for a run: those of the program and of the environment, of each the stricter one.
#pragma once

#include <functional>
#include <string>

#include "src/base/file_system.h"
#include "stepwatch/options.h"
#include "stepwatch/status.h"

namespace stepwatch::api {

struct LimitSources {
  // As std::getenv. Null: the variable is not set.
  std::function<const char*(const char* name)> variable;
  // The directory without links in its path, made if it is not there. Asked only to compare two output roots.
  std::function<Result<std::string>(const std::string& path)> resolve;
};

// An error: a variable cannot be understood, or two limits leave nothing that both allow. A limit that somebody has
// written wrongly is never passed over.
Result<Limits> LimitsInForce(const Limits& of_program, const LimitSources& sources);

// The environment's, and the file system's.
LimitSources SystemLimitSources(base::FileSystem& files);

}  // namespace stepwatch::api
