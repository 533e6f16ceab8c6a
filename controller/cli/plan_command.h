// `stepwatch plan FILE`: what would be collected when; with a job's site index also how much.
#pragma once

#include <string>

namespace stepwatch::cli {

struct PlanArguments {
  std::string file;
  std::string sites;  // a run's manifest.json; empty: no model is known
  int rank = 0;
  bool dynamic = false;
  bool json = false;
};

// 0: printed; 2: the config or the manifest is unusable.
int RunPlan(const PlanArguments& arguments);

}  // namespace stepwatch::cli
