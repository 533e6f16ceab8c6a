// The changes of incidents as they come, for as long as somebody wants to know.
#pragma once

#include <string>

#include "controller/cli/stepwatchd_client.h"

namespace stepwatch::cli {

// Prints a line for each incident that is open, then one for each change, until SIGINT or SIGTERM: 0. A stepwatchd that
// goes away is waited for; what it told meanwhile follows, and a line says `gap` if some of it is not kept any more.
// `run`: its id; empty: all.
int WatchIncidents(const StepwatchdClient& client, const std::string& run, bool as_json);

}  // namespace stepwatch::cli
