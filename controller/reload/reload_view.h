// What the loop knows of file and plans, as a value for people on other threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/reload/motion.h"
#include "src/plan/plan.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/site_kind.h"
#include "stepwatch/status.h"

namespace stepwatch::reload {

struct PlanView {
  PlanId plan_id = 0;
  std::string config_sha256;
  int64_t collect_times = 0;
  int64_t step_interval = 1;  // that of the config, or the longer one that its budget asks for
  int64_t at_step = -1;       // for which it waits; -1: the ranks have not agreed on one
  int64_t sites = 0;
  int64_t rows_per_step = 0;
  int64_t queue_bytes = 0;                 // of its ring
  std::shared_ptr<const plan::Plan> plan;  // not null
  std::shared_ptr<const SiteIndex> model;  // that it was compiled for; not null
};

// What would become of a config if the file held it; nothing is armed.
struct EditTrial {
  Status refusal;         // Ok: it would be taken
  bool collects = false;  // it asks for a plan, and that can be built
  int64_t sites = 0;
  int64_t rows_per_step = 0;
};

// The budget of the plan in force, or armed, and what became of it.
struct BudgetView {
  double percent = 0;
  std::string why_not;  // why nothing is lowered in this job; empty: it is
  int64_t factor = 1;   // on the config's step_interval
  std::vector<SiteKind> left_out;
  std::optional<double> spent_percent;  // lately; nothing: no collected step of it has ended
  uint64_t decisions = 0;
  std::string last_decision;
};

struct ReloadView {
  std::string run_id;                // of the job, once this rank has heard of it
  std::string incarnation;           // of this process among the ranks; empty: it shares no store with them
  std::string file_sha256;           // what the file held at the last look; empty: not read yet
  std::optional<Status> refusal;     // of those bytes
  std::string not_begun;             // why what the file asks for is not begun; empty: it is
  std::string file_trouble;          // the file is missing or unreadable; empty: it is not
  std::optional<PlanView> in_force;  // what the loop believes to be; the step thread may be a moment ahead
  std::optional<PlanView> armed;
  bool given = false;     // what runs, or ran last, was given and not read: the file holds other bytes
  SegmentView segment;    // of the files
  bool stopping = false;  // what is in force ends at the next boundary
  std::optional<BudgetView> budget;
  std::string watch_mode;                         // empty: nobody watches the file
  std::shared_ptr<const SiteIndex> sites;         // of the model; null: no model is attached
  std::shared_ptr<const config::Config> in_file;  // that the file holds; null: not usable, or not read yet
};

}  // namespace stepwatch::reload
