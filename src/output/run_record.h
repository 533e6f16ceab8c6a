// What manifest.json will say of this run: a value, changed as plans come and go. Touches no file.
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
  // The run starts now.
  RunRecord(const Options& options, bool dynamic);

  void SetRunId(const std::string& run_id) { manifest_.run_id = run_id; }
  void SetSites(std::shared_ptr<const SiteIndex> sites) { manifest_.sites = std::move(sites); }
  // Keeps the newest plans: a run that is steered for weeks does not grow its manifest without end.
  void AddPlan(const plan::Plan& plan);
  // Changes the entry of a plan; unknown ids are ignored.
  void Update(PlanId plan_id, const std::function<void(ManifestPlan&)>& change);
  // Keeps the newest likewise.
  void AddSegment(ManifestSegment segment);
  const Manifest& manifest() const { return manifest_; }

 private:
  Manifest manifest_;
};

}  // namespace stepwatch::output
