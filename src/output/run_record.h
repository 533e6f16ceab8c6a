// Content of this run's manifest.json: a value, changed as plans come and go. No file access.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/output/manifest.h"
#include "src/plan/plan.h"
#include "stepwatch/options.h"

namespace stepwatch::output {

class RunRecord {
 public:
  // The run starts at construction.
  RunRecord(const Options& options, bool dynamic);

  void SetRunId(const std::string& run_id) { manifest_.run_id = run_id; }
  void SetSites(std::shared_ptr<const SiteIndex> sites) { manifest_.sites = std::move(sites); }
  // Keeps only the newest plans, so that the manifest of a run that is steered for weeks stays bounded.
  void AddPlan(const plan::Plan& plan);
  // Changes the entry of a plan; unknown ids are ignored.
  void Update(PlanId plan_id, const std::function<void(ManifestPlan&)>& change);
  // Keeps only the newest ones, too.
  void AddSegment(ManifestSegment segment);
  const Manifest& manifest() const { return manifest_; }

 private:
  Manifest manifest_;
};

}  // namespace stepwatch::output
