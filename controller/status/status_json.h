// The status of a job as JSON: the answer of GET /v1/status.
#pragma once

#include "controller/status/job_status.h"
#include "src/json/json.h"

namespace stepwatch::status {

Json StatusJson(const JobStatus& status);
Json LedgerJson(const Ledger& ledger);

}  // namespace stepwatch::status
