// The state of file and plans as the loop knows it: a value that other threads may read.
#pragma once

#include <memory>
#include <optional>

#include "controller/status/job_status.h"
#include "src/config/config.h"
#include "src/plan/plan.h"
#include "stepwatch/site.h"

namespace stepwatch::reload {

// A plan that is armed or in force, and the model for which it was compiled; neither is null.
struct PlanView {
  PlanId plan_id = 0;
  std::shared_ptr<const plan::Plan> plan;
  std::shared_ptr<const SiteIndex> model;
};

struct ReloadView {
  status::ReloadStatus status;
  std::optional<PlanView> in_force;  // the plans of `status`
  std::optional<PlanView> armed;
  std::shared_ptr<const SiteIndex> sites;         // of the model; null: no model is attached
  std::shared_ptr<const config::Config> in_file;  // the config in the file; null: unusable, or not read yet
};

}  // namespace stepwatch::reload
