// The state of file and plans as the loop knows it: a value that other threads may read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/budget/budget_keeper.h"
#include "src/plan/plan.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

// The newest segment of the files that has begun, and the one before it, which is closed.
struct SegmentView {
  int64_t segment = 1;
  int64_t last_step = -1;          // of the one before it; -1: the plan ended before the cut, its files are closed
  std::vector<std::string> files;  // of the one before it: the files that were open
};

struct PlanView {
  PlanId plan_id = 0;
  std::string config_sha256;
  int64_t collect_times = 0;
  int64_t step_interval = 1;  // the config's, or the longer one that its budget requires
  int64_t at_step = -1;       // the awaited step; -1: the ranks have not agreed on one
  int64_t sites = 0;
  int64_t rows_per_step = 0;
  int64_t queue_bytes = 0;                 // of its ring
  std::shared_ptr<const plan::Plan> plan;  // not null
  std::shared_ptr<const SiteIndex> model;  // for which it was compiled; not null
};

// The result that a config would have if the file held it; no plan is armed.
struct EditTrial {
  Status refusal;         // Ok: it would be accepted
  bool collects = false;  // it requests a plan, which can be built
  int64_t sites = 0;
  int64_t rows_per_step = 0;
};

struct ReloadView {
  std::string run_id;                // of the job, once this rank knows it
  std::string incarnation;           // number of this process among the ranks; empty: it shares no store with them
  std::string file_sha256;           // of the content at the last look; empty: not read yet
  std::optional<Status> refusal;     // of those bytes
  std::string not_begun;             // why the window of the file is not begun; empty: it is begun
  std::string file_trouble;          // why the file is missing or unreadable; empty: it is readable
  std::optional<PlanView> in_force;  // as the loop knows it; the step thread may be a moment ahead
  std::optional<PlanView> armed;
  bool overridden = false;  // the bytes that run, or ran last, override the file, which holds others
  SegmentView segment;      // of the files
  bool stopping = false;    // the plan in force ends at the next boundary
  std::optional<budget::BudgetView> budget;
  std::string watch_mode;                         // empty: the file is not watched
  std::shared_ptr<const SiteIndex> sites;         // of the model; null: no model is attached
  std::shared_ptr<const config::Config> in_file;  // the config in the file; null: unusable, or not read yet
};

}  // namespace stepwatch::reload
