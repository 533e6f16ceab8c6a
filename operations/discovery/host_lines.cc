#include "operations/discovery/host_lines.h"

#include <cmath>

namespace stepwatch::operations {
namespace {

// Smaller changes are not reported: of pressure, in percent, and of a cgroup's memory, as a share of its limit.
constexpr double kPsiDifferenceMin = 1;
constexpr double kShareDifferenceMin = 0.05;

std::optional<double> ShareOf(const HostEvent& event) {
  if (!event.cgroup_bytes || !event.cgroup_bytes_max || *event.cgroup_bytes_max <= 0) return std::nullopt;
  return *event.cgroup_bytes / *event.cgroup_bytes_max;
}

bool IsClose(const std::optional<double>& a, const std::optional<double>& b, double difference) {
  return a.has_value() == b.has_value() && (!a || std::abs(*a - *b) < difference);
}

// Adds the memory of the cgroup with the least left.
void AddFullest(const std::map<std::string, CgroupMemory>& cgroups, HostEvent* event) {
  for (const auto& [directory, memory] : cgroups) {
    HostEvent other;
    other.cgroup_bytes = memory.current_bytes;
    other.cgroup_bytes_max = memory.max_bytes;
    const std::optional<double> share = ShareOf(other);
    if (!share || (ShareOf(*event) && *ShareOf(*event) >= *share)) continue;
    event->cgroup_bytes = other.cgroup_bytes;
    event->cgroup_bytes_max = other.cgroup_bytes_max;
  }
}

}  // namespace

std::optional<HostEvent> HostLines::OnMemory(const std::string& host, const HostMemory& memory,
                                             const std::map<std::string, CgroupMemory>& cgroups, bool reports_same) {
  std::map<std::string, std::optional<double>> kills;
  for (const auto& [directory, cgroup] : cgroups) kills[directory] = cgroup.oom_kill;
  HostEvent event;
  event.host = host;
  event.oom_kill = counter_.Count(memory.oom_kill, kills);
  if (counter_.in_cgroups() > 0) event.cgroup_oom_kill = counter_.in_cgroups();
  event.psi = memory.psi;
  AddFullest(cgroups, &event);
  const bool is_same = reported_ && reported_->oom_kill == event.oom_kill &&
                       reported_->cgroup_oom_kill == event.cgroup_oom_kill &&
                       IsClose(reported_->psi, event.psi, kPsiDifferenceMin) &&
                       IsClose(ShareOf(*reported_), ShareOf(event), kShareDifferenceMin);
  if (is_same && !reports_same) return std::nullopt;
  reported_ = event;
  return event;
}

}  // namespace stepwatch::operations
