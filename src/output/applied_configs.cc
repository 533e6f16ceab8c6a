#include "src/output/applied_configs.h"

#include <algorithm>

namespace stepwatch::output {
namespace {

std::optional<AppliedConfig> LastOf(const std::vector<AppliedConfig>& all,
                                    const std::function<bool(const HistoryLine&)>& is_wanted) {
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const auto& each) { return is_wanted(each.line); });
  return found == all.rend() ? std::nullopt : std::optional(*found);
}

// Skips repeated starts of the last config: the result is a different one.
Result<AppliedConfig> FindBefore(const std::vector<AppliedConfig>& all, const std::string& config,
                                 const std::string& where) {
  if (!all.empty()) {
    const std::string last = all.back().line.sha256;
    const auto found = LastOf(all, [&last](const HistoryLine& line) { return line.sha256 != last; });
    if (found) return *found;
  }
  return Status(StatusCode::kNotFound,
                config + (all.empty() ? " has no history in " + where : " has run with one config only") +
                    ": no earlier config to return to");
}

// True if both names are equal or resolve to one file.
bool IsSamePath(const std::string& a, const std::string& b) {
  if (a == b) return true;
  std::string real_a, real_b;
  base::FileSystem& files = base::FileSystem::Real();
  if (files.RealPath(a.c_str(), &real_a) != 0 || files.RealPath(b.c_str(), &real_b) != 0) return a == b;
  return real_a == real_b;
}

bool IsEnd(const HistoryLine& line) {
  return line.outcome == "finished" || line.outcome == "limited";
}

// Contents of the file and their outcomes, oldest first.
std::vector<HistoryLine> LinesOfJob(const std::vector<FoundHistory>& runs, const std::string& job_id,
                                    const std::string& config_path) {
  std::vector<HistoryLine> lines;
  for (const FoundHistory& run : runs)
    for (const HistoryLine& line : run.history.lines)
      if (line.job_id == job_id && !line.is_volatile && IsSamePath(line.config_path, config_path))
        lines.push_back(line);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const HistoryLine& a, const HistoryLine& b) { return a.time < b.time; });
  return lines;
}

std::string UnreadableOf(const std::vector<FoundHistory>& runs) {
  for (const FoundHistory& run : runs)
    if (!run.status.ok()) return run.status.message();
  return "";
}

}  // namespace

std::vector<AppliedConfig> AppliedConfigs(const std::vector<FoundHistory>& runs,
                                          const std::function<bool(const HistoryLine&)>& is_wanted) {
  std::vector<AppliedConfig> all;
  for (const FoundHistory& run : runs)
    for (const HistoryLine& line : run.history.lines)
      if (line.outcome == "applied" && is_wanted(line)) all.push_back({run.directory, line});
  std::stable_sort(all.begin(), all.end(),
                   [](const AppliedConfig& a, const AppliedConfig& b) { return a.line.time < b.line.time; });
  return all;
}

Result<AppliedConfig> FindPlan(const std::vector<AppliedConfig>& all, PlanId plan_id, const std::string& where) {
  const auto found = LastOf(all, [plan_id](const HistoryLine& line) { return line.plan_id == plan_id; });
  if (found) return *found;
  return Status(StatusCode::kNotFound, "no plan " + std::to_string(plan_id) + " in the history of " + where +
                                           "; `stepwatch history " + where + "` lists the plans");
}

Result<OldConfig> FindOldConfig(const std::string& where, const std::string& config_path, PlanId plan_id,
                                std::optional<uid_t> owner, base::FileSystem& files) {
  HistoryQuestion question = OwnHistory(QuotedInHistory("applied"));
  question.owner = owner;
  const Result<std::vector<FoundHistory>> runs = FindHistories(where, question, files);
  if (!runs.ok()) return runs.status();
  const auto all =
      AppliedConfigs(runs.value(), [&](const HistoryLine& line) { return IsSamePath(line.config_path, config_path); });
  Result<AppliedConfig> found = plan_id != 0 ? FindPlan(all, plan_id, where) : FindBefore(all, config_path, where);
  if (!found.ok()) return found.status();
  Result<std::string> text = KeptConfig(found.value().directory, found.value().line.sha256, owner, files);
  if (!text.ok()) return text.status();
  return OldConfig{std::move(found).value(), std::move(text).value()};
}

Result<std::optional<HistoryLine>> FindDoneWindow(const std::string& where, const std::string& job_id,
                                                  const std::string& config_path, const std::string& sha256,
                                                  base::FileSystem& files) {
  const std::optional<HistoryLine> not_done;
  const Result<std::vector<FoundHistory>> runs = FindHistories(where, OwnHistory(QuotedInHistory(job_id)), files);
  if (!runs.ok() && runs.status().code() == StatusCode::kNotFound) return not_done;
  if (!runs.ok()) return Status(StatusCode::kUnavailable, runs.status().message());
  const std::vector<HistoryLine> lines = LinesOfJob(runs.value(), job_id, config_path);
  const bool is_done =
      !lines.empty() && lines.back().sha256 == sha256 && (IsEnd(lines.back()) || lines.back().outcome == "not_begun");
  const auto end = std::find_if(lines.rbegin(), lines.rend(),
                                [&](const HistoryLine& line) { return line.sha256 == sha256 && IsEnd(line); });
  if (is_done) return std::optional(end == lines.rend() ? lines.back() : *end);
  const std::string unreadable = UnreadableOf(runs.value());
  return unreadable.empty() ? Result<std::optional<HistoryLine>>(not_done)
                            : Status(StatusCode::kUnavailable, unreadable);
}

}  // namespace stepwatch::output
