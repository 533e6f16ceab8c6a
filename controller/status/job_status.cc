#include "controller/status/job_status.h"

#include <algorithm>

namespace stepwatch::status {

double MeasuringCost::step_seconds() const {
  return std::max(0.0, static_cast<double>(total.elapsed_ns) * 1e-9 - seconds());
}

const char* MeasuringCost::NameOf(size_t part) {
  return part == step::kBoundaryCost ? "boundary" : SiteKindName(static_cast<SiteKind>(part));
}

std::string JobStatus::running_sha256() const {
  return reload.armed ? reload.armed->config_sha256 : reload.in_force ? reload.in_force->config_sha256 : "";
}

std::string JobStatus::drift() const {
  if (!reload.file_trouble.empty()) return "the config file cannot be read: " + reload.file_trouble;
  if (reload.refusal) return "the content of the config file was refused";
  if (!monitor.fault.empty()) return "the content of the config file could not be applied: " + monitor.fault;
  if (reload.overridden)
    return "the running or last plan was applied with --volatile; the config file has other content, which replaces it "
           "when the file changes";
  const std::string running = running_sha256();
  if (running.empty() || reload.stopping || running == reload.file_sha256 || reload.file_sha256.empty()) return "";
  return "the running plan comes from another text than the config file holds";
}

}  // namespace stepwatch::status
