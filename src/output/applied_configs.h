// Which configs the runs of one config file have applied, which of them somebody wants to go back to, and which of them
// a job has done.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/output/history.h"
#include "src/output/history_file.h"
#include "stepwatch/status.h"

namespace stepwatch::output {

// A config that was applied, and the run whose history keeps it.
struct AppliedConfig {
  std::string directory;
  HistoryLine line;
};

// Oldest first.
std::vector<AppliedConfig> AppliedConfigs(const std::vector<FoundHistory>& runs,
                                          const std::function<bool(const HistoryLine&)>& is_wanted);

// The last one with a plan of this number. `where` is named in the refusal.
Result<AppliedConfig> FindPlan(const std::vector<AppliedConfig>& all, PlanId plan_id, const std::string& where);

struct OldConfig {
  AppliedConfig from;
  std::string text;
};

// What a rollback of the config at `config_path` puts in: the config of the last plan of that number; 0: the last one
// that differs from the one that was applied last. `where`: see FindHistories; only the runs of just this file count.
// `owner`: see HistoryQuestion.
Result<OldConfig> FindOldConfig(const std::string& where, const std::string& config_path, PlanId plan_id,
                                std::optional<uid_t> owner = std::nullopt,
                                base::FileSystem& files = base::FileSystem::Real());

// The window of these bytes, if the job's last word about its config file is that it was done. Nothing: it was not, or
// something else was in the file since. What was given while the file held other bytes does not count. `where`: see
// FindHistories; without one nothing was done, and one of another user counts as none. kUnavailable: none says that it
// was done, and one cannot be read.
Result<std::optional<HistoryLine>> FindDoneWindow(const std::string& where, const std::string& job_id,
                                                  const std::string& config_path, const std::string& sha256,
                                                  base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::output
