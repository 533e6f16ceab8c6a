#include "controller/status/job_status.h"

#include "tests/catch.h"
#include "tests/has.h"

namespace stepwatch::status {
namespace {

using testing::Has;

TEST_CASE("a running plan from other text than the file's is a drift, unless it is about to end") {
  JobStatus status;
  CHECK(status.drift().empty());
  status.reload.file_sha256 = "in the file";
  CHECK(status.drift().empty());
  status.reload.in_force = PlanStatus{.plan_id = 1, .config_sha256 = "in the file"};
  CHECK(status.drift().empty());
  status.reload.in_force->config_sha256 = "runs";
  CHECK(status.running_sha256() == "runs");
  CHECK(Has(status.drift(), "from another text than the config file holds"));
  status.reload.stopping = true;
  CHECK(status.drift().empty());
  status.reload.stopping = false;
  status.reload.armed = PlanStatus{.plan_id = 2, .config_sha256 = "in the file"};
  CHECK(status.running_sha256() == "in the file");
  CHECK(status.drift().empty());
}

TEST_CASE("the drift names the first reason why the file's content does not run") {
  JobStatus status;
  status.reload.overridden = true;
  CHECK(Has(status.drift(), "applied with --volatile"));
  status.monitor.fault = "disk full";
  CHECK(Has(status.drift(), "could not be applied: disk full"));
  status.reload.refusal = Status(StatusCode::kInvalid, "is no list");
  CHECK(Has(status.drift(), "was refused"));
  status.reload.file_trouble = "is a directory";
  CHECK(Has(status.drift(), "cannot be read: is a directory"));
}

}  // namespace
}  // namespace stepwatch::status
