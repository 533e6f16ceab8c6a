// Which run, or incident, of those that stepwatchd knows the beginning of an id means. See MeantId.
#pragma once

#include <string>

#include "controller/cli/stepwatchd_client.h"
#include "stepwatch/status.h"

namespace stepwatch::cli {

// Runs that are known, and those of which an incident is known.
Result<std::string> MeantRun(const StepwatchdClient& client, const std::string& beginning);
Result<std::string> MeantIncident(const StepwatchdClient& client, const std::string& beginning);

}  // namespace stepwatch::cli
