// `stepwatch plan FILE`: what would change in a running job, or, without one, what would be collected when.
#pragma once

#include <string>

namespace stepwatch::cli {

struct PlanArguments {
  std::string file;
  std::string sites;  // a run's manifest.json; empty: no model is known
  std::string job;    // as FindJob takes it; empty: that which watches the file, or the only one
  // Of a job to come: with either of them the only job is not asked, unless it watches the file.
  int rank = 0;
  bool dynamic = false;
  bool json = false;
};

// 0: printed, or the same as what runs; 1: it differs; 2: the config or the manifest is unusable; 6: the job does not
// answer. With a manifest no job is asked.
int RunPlan(const PlanArguments& arguments);

}  // namespace stepwatch::cli
