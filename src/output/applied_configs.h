// Looks up applied configs in the histories of the runs of one config file: the one to roll back to, and windows that a
// job has completed.
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

// An applied config, and the run whose history keeps it.
struct AppliedConfig {
  std::string directory;
  HistoryLine line;
};

// Oldest first.
std::vector<AppliedConfig> AppliedConfigs(const std::vector<FoundHistory>& runs,
                                          const std::function<bool(const HistoryLine&)>& is_wanted);

// The last one with a plan of this number. The error names `where`.
Result<AppliedConfig> FindPlan(const std::vector<AppliedConfig>& all, PlanId plan_id, const std::string& where);

struct OldConfig {
  AppliedConfig from;
  std::string text;
};

// The config that a rollback of `config_path` restores: the last one with plan `plan_id`; 0: the last one that differs
// from the one applied last. `where`: see FindHistories; only the runs of exactly this file count. `owner`: see
// HistoryQuestion.
Result<OldConfig> FindOldConfig(const std::string& where, const std::string& config_path, PlanId plan_id,
                                std::optional<uid_t> owner = std::nullopt,
                                base::FileSystem& files = base::FileSystem::Real());

// The completed window of these bytes, if the last outcome of the job's config file is its completion. nullopt: it was
// not completed, or the file has had other content since. Edits applied without writing the file do not count. `where`:
// see FindHistories; if there is none, or it belongs to another user, no window is completed. kUnavailable: no readable
// history contains the completion, and one is unreadable.
Result<std::optional<HistoryLine>> FindDoneWindow(const std::string& where, const std::string& job_id,
                                                  const std::string& config_path, const std::string& sha256,
                                                  base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::output
