#include "operations/gpu/gpu_users.h"

namespace stepwatch::operations {
namespace {

// The driver itself takes less on an idle GPU.
constexpr double kUsedBytesMin = 2e9;

}  // namespace

void GpuUsers::Take(const GpuSample& sample, const std::vector<KnownProcess>& processes, double now) {
  std::map<int, std::set<GpuUser>> by_pid;
  runs_.clear();
  for (const KnownProcess& each : processes) {
    runs_.insert(each.run);
    if (each.process.pid > 0) by_pid[each.process.pid].insert({each.run, each.rank});
  }
  for (const GpuReading& reading : sample.gpus) {
    if (!reading.parent.empty()) parents_[reading.uuid] = reading.parent;
    if (!reading.processes.empty() || reading[GpuField::kMemoryUsed].value_or(0) >= kUsedBytesMin)
      in_use_[reading.parent.empty() ? reading.uuid : reading.parent] = now;
    for (const int pid : reading.processes) {
      const auto found = by_pid.find(pid);
      if (found == by_pid.end()) continue;
      for (const GpuUser& user : found->second) users_[reading.uuid][user] = now;
    }
  }
  for (auto& [uuid, users] : users_)
    std::erase_if(users, [&](const auto& user) { return now - user.second > kPastSeconds; });
  std::erase_if(in_use_, [&](const auto& each) { return now - each.second > kPastSeconds; });
  std::erase_if(users_, [](const auto& each) { return each.second.empty(); });
  std::erase_if(parents_, [&](const auto& slice) {
    for (const GpuReading& reading : sample.gpus)
      if (reading.uuid == slice.first) return false;
    return users_.count(slice.first) == 0;
  });
}

std::set<GpuUser> GpuUsers::Of(const std::string& uuid) const {
  std::set<GpuUser> users;
  if (const auto found = users_.find(uuid); found != users_.end())
    for (const auto& [user, seen] : found->second) users.insert(user);
  return users;
}

std::set<GpuUser> GpuUsers::OfWhole(const std::string& uuid) const {
  std::set<GpuUser> users = Of(uuid);
  for (const auto& [slice, parent] : parents_)
    if (parent == uuid) users.merge(Of(slice));
  if (users_.empty() && in_use_.count(uuid) > 0)
    for (const std::string& run : runs_) users.insert({run, -1});
  return users;
}

}  // namespace stepwatch::operations
