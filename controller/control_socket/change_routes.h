// Routes that change the config file of a job or act on its running plan, and routes that return earlier changes.
#pragma once

#include "controller/control_socket/routes.h"

namespace stepwatch::control_socket {

// The body is the new text, unmodified.
void BeginApply(const Request& request, Job& job, OnAnswer then);
void BeginStart(const Request& request, Job& job, OnAnswer then);
void BeginStop(const Request& request, Job& job, OnAnswer then);
// ?plan=N or the body {"plan": N}: restores the config of that plan; without either, the previous config.
void BeginRollback(const Request& request, Job& job, OnAnswer then);

// These leave the config file unchanged.
http::Answer PostPause(const Request& request, Job& job);
http::Answer PostResume(const Request& request, Job& job);
http::Answer PostRotate(const Request& request, Job& job);

// ?limit=N: returns at most N lines, the newest last.
void BeginHistory(const Request& request, Job& job, OnAnswer then);
// Returns the bytes of a config, found by their hash.
void BeginConfig(const Request& request, Job& job, OnAnswer then);

}  // namespace stepwatch::control_socket
