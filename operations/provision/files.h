// All files of a provisioned directory as values. Pure.
#pragma once

#include <string>
#include <vector>

#include "operations/provision/options.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

struct ProvisionedFile {
  std::string path;  // below the directory
  std::string text;
};

// Sorted by path. `options` must have passed CheckProvisionOptions.
Result<std::vector<ProvisionedFile>> MakeFiles(const ProvisionOptions& options);

}  // namespace stepwatch::operations
