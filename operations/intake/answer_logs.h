// GET /v1/runs/{run}/logs: the records of a run that stepwatchd keeps, and the files that have all its lines.
#pragma once

#include <string>

#include "operations/intake/service.h"
#include "src/http/handler.h"

namespace stepwatch::operations {

// `query` as sent: rank, since, severity, grep, limit. Records are searched in turns of the loop. An empty `run`: the
// records of this machine that belong to no run.
void AnswerLogs(const std::string& run, const std::string& query, Service* service, const http::OnAnswer& then);

}  // namespace stepwatch::operations
