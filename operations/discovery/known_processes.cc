#include "operations/discovery/known_processes.h"

#include <iterator>
#include <optional>
#include <utility>

#include "operations/discovery/known_process.h"
#include "operations/witness/process_end.h"

namespace stepwatch::operations {
namespace {

// Gone, wherever one looks: of a machine that was started again a pid may be somebody else's.
constexpr ProcessRef kNobody{0, 0};

}  // namespace

bool KnownProcesses::See(const KnownProcess& process) {
  const std::string key = KeyOf(process);
  if (entries_.size() >= kProcessesMax && entries_.count(key) == 0) return false;
  Entry& entry = entries_[key];
  entry.process = process;
  entry.is_seen = true;
  if (entry.end) entry.end->Stop();
  entry.end.reset();
  return true;
}

void KnownProcesses::Remember(const KnownProcess& process) {
  entries_[KeyOf(process)].process = process;
}

void KnownProcesses::Forget(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  if (found->second.end) found->second.end->Stop();
  entries_.erase(found);
}

void KnownProcesses::Tick(double now) {
  for (auto each = entries_.begin(); each != entries_.end();) {
    Entry& entry = each->second;
    if (std::exchange(entry.is_seen, false)) {
      ++each;
      continue;
    }
    if (entry.end)
      entry.end->Look();
    else
      Watch(&entry);
    const bool is_unknown = !entry.end && now - entry.process.seen_t > kUnseenSecondsMax;
    each = is_unknown ? entries_.erase(each) : std::next(each);
  }
}

// Nothing is made of one of which nobody can tell from here: it stays unknown.
void KnownProcesses::Watch(Entry* entry) {
  const std::optional<bool> has_ended = HasEnded(entry->process, files_);
  if (!has_ended) return;
  const ProcessRef process{entry->process.process.pid, entry->process.process.started};
  base::UniqueFd pidfd = *has_ended ? base::UniqueFd() : OpenPidfd(process, files_);
  entry->end = std::make_shared<ProcessEnd>(
      loop_, std::move(pidfd), *has_ended ? kNobody : process, [this, known = entry->process] { on_end_(known); },
      files_);
  entry->end->Start();
}

void KnownProcesses::Stop() {
  for (auto& [key, entry] : entries_)
    if (entry.end) entry.end->Stop();
}

std::vector<KnownProcess> KnownProcesses::All() const {
  std::vector<KnownProcess> all;
  for (const auto& [key, entry] : entries_) all.push_back(entry.process);
  return all;
}

}  // namespace stepwatch::operations
