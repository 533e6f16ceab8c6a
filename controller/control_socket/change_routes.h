// What changes the config file of a job, and what tells of the changes before. For the table of routes.
#pragma once

#include "controller/control_socket/routes.h"

namespace stepwatch::control_socket {

// The body is the new text, as it is.
void BeginApply(const Request& request, Job& job, OnAnswer then);
void BeginStart(const Request& request, Job& job, OnAnswer then);
void BeginStop(const Request& request, Job& job, OnAnswer then);
// ?plan=N or the body {"plan": N}: back to the config of that plan; without, to the one before.
void BeginRollback(const Request& request, Job& job, OnAnswer then);

// ?limit=N: that many lines, the newest last.
void BeginHistory(const Request& request, Job& job, OnAnswer then);
// The bytes of a config by their hash.
void BeginConfig(const Request& request, Job& job, OnAnswer then);

}  // namespace stepwatch::control_socket
