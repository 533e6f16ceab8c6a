// Where this run's output lies, and the manifest.json that describes it. Loop thread only.
//
// Nothing is created before the first plan that writes; with the format `api` alone there is neither directory nor
// manifest.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/file_system.h"
#include "src/output/manifest.h"
#include "src/plan/plan.h"
#include "stepwatch/options.h"
#include "stepwatch/status.h"

namespace stepwatch::output {

class RunRecord {
 public:
  RunRecord(const Options& options, bool dynamic, base::FileSystem& files = base::FileSystem::Real());

  // Fixes the directory by the first plan with files (append_output may name an older one). A `note` then tells what
  // append_output led to.
  void FixDirectory(const plan::Plan& plan, std::string* note);
  const std::string& directory() const { return directory_; }

  // Only before the directory is fixed; afterwards nothing changes.
  void SetRunId(const std::string& run_id) {
    if (directory_.empty()) manifest_.run_id = run_id;
  }
  void SetSites(const SiteIndex& sites) { manifest_.sites = sites; }
  void AddPlan(const plan::Plan& plan);
  // Changes the entry of a plan; unknown ids are ignored.
  void Update(PlanId plan_id, const std::function<void(ManifestPlan&)>& change);

  // Writes manifest.json whole; Ok if there is no directory yet.
  Status Save() const;
  // {base}/module_struct/rank{R}/module_struct.json; returns its path.
  Result<std::string> SaveStructure(const std::string& json) const;
  // stack_info.csv in the directory, unless one is there. The `note` tells what became of the rows.
  Status SaveStacks(const std::vector<std::pair<std::string, std::string>>& rows, std::string* note) const;

 private:
  base::FileSystem& files_;
  const std::string base_;
  Manifest manifest_;
  std::string directory_;
};

}  // namespace stepwatch::output
