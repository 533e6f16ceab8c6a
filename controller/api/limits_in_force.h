// The limits of a run: the stricter of the program's limits and the environment's.
#pragma once

#include <functional>
#include <string>

#include "src/base/file_system.h"
#include "stepwatch/options.h"
#include "stepwatch/status.h"

namespace stepwatch::api {

struct LimitSources {
  // Same interface as std::getenv. Null: the variable is not set.
  std::function<const char*(const char* name)> variable;
  // Returns the path of the directory without symlinks, and creates it if missing. Called only to compare two output
  // roots.
  std::function<Result<std::string>(const std::string& path)> resolve;
};

// Fails if a variable is invalid, or if two limits leave no value that both allow. An invalid limit is never ignored.
Result<Limits> LimitsInForce(const Limits& of_program, const LimitSources& sources);

// Reads the environment and the file system.
LimitSources SystemLimitSources(base::FileSystem& files);

}  // namespace stepwatch::api
