// manifest.json: the contents of a run's directory, and the model's sites. Format: docs/formats/csv.md.
//
// Pure text in both directions. The file is written at each change in the life of a plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/process_identity.h"
#include "stepwatch/record.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/site.h"
#include "stepwatch/status.h"

namespace stepwatch::output {

// For a plan whose config has a budget.
struct ManifestBudget {
  double percent = 0;
  int64_t step_interval = 1;          // of the plan, if larger than that of the config
  std::vector<std::string> left_out;  // kinds
  std::string decision;               // that led to the plan; empty: none
};

struct ManifestPlan {
  PlanId plan_id = 0;
  std::string config_sha256;
  std::string state;  // "armed", "collecting", "finished", "drained", "superseded"
  int64_t first_step = -1;
  int64_t last_step = -1;
  int64_t collected = 0;
  std::string end_reason;
  std::optional<Ledger> ledger;
  std::optional<ManifestBudget> budget;
  std::string write_back;  // result of writing dynamic_on back; empty: not written back
};

// Files closed by a rotation: those whose names end with "_s" and the number, or for 1 with neither.
struct ManifestSegment {
  int64_t segment = 1;
  int64_t last_step = -1;
  std::vector<std::string> files;  // closed files: names in the run's directory
};

struct Manifest {
  std::string run_id;
  int rank = 0;
  int world_size = 1;
  base::ProcessIdentity process;
  int grad_acc_steps = 1;
  std::string started;  // local time, ISO 8601
  std::string config_path;
  bool dynamic = false;
  std::shared_ptr<const SiteIndex> sites;  // null: the model is unknown
  std::vector<ManifestPlan> plans;
  std::vector<ManifestSegment> segments;
};

std::string ManifestText(const Manifest& manifest);

// The site index of a manifest (and its grad_acc_steps), for `stepwatch plan --sites`.
struct ManifestSites {
  SiteIndex sites;
  int grad_acc_steps = 1;
};
Result<ManifestSites> SitesFromManifest(const std::string& text_untrusted);

}  // namespace stepwatch::output
