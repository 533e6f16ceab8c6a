// `stepwatch status --ranks` and `apply --dry-run=ranks`: all ranks of a job, asked through the control socket of one
// (docs/formats/control_api.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace stepwatch::cli {

struct RanksArguments {
  std::string job;  // see FindJob; empty: the only one
  bool json = false;
  bool watch = false;
};

struct DryRunArguments {
  std::string file;    // the new config
  std::string config;  // that the job watches
  bool json = false;
};

// 0: all ranks are heard and well; 5: some are not; 2 and 6 as for status.
int RunRanks(const RanksArguments& arguments);
// 0: every rank would take it; 2: no rank would, it is unusable; 4: a rank refuses it, or was not heard; 5: the other
// ranks could not be asked; 6: no job watches that config.
int RunDryRun(const DryRunArguments& arguments);

// Answers of ranks that share no store, as one. Pure.
nlohmann::ordered_json CombineRanks(const std::vector<nlohmann::ordered_json>& answers_untrusted);

}  // namespace stepwatch::cli
