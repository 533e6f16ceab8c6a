// `stepwatch status --ranks` and `apply --dry-run=ranks`: query all ranks of a job through the control socket of one
// rank (docs/formats/control_api.md), and show their answers as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/json/json.h"

namespace stepwatch::cli {

struct RanksArguments {
  std::string job;  // a JOB argument of FindJob
  bool json = false;
  bool watch = false;
};

struct DryRunArguments {
  std::string file;    // the new config
  std::string config;  // the one that the job watches
  bool json = false;
};

// 0: all ranks answered and are well; 5: some did not, or are not; 2 and 6 as for status.
int RunRanks(const RanksArguments& arguments);
// 0: every rank would accept the config; 2: it is unusable; 4: a rank refuses it, or did not answer; 5: the other ranks
// could not be queried; 6: no job watches that config.
int RunDryRun(const DryRunArguments& arguments);

// Combines answers of ranks that share no store. Pure.
nlohmann::ordered_json CombineRanks(const std::vector<nlohmann::ordered_json>& answers_untrusted);

// The screen of `stepwatch status --ranks`.
std::string RanksText(const Json& ranks_untrusted);
// The lines of `stepwatch apply --dry-run=ranks`.
std::string DryRunText(const Json& trials_untrusted);

}  // namespace stepwatch::cli
