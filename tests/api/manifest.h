// The manifest that a job leaves in its directory.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/api/job.h"

namespace stepwatch::testing {

// After Close. Its members are sorted, so that objects can be compared.
inline nlohmann::json ManifestOf(const Job& job) {
  return nlohmann::json::parse(Contents(job.output_dir + "/manifest.json"));
}

}  // namespace stepwatch::testing
