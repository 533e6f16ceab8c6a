#include "operations/discovery/known_processes.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "operations/trace/parse_line.h"
#include "operations/witness/process_end.h"

namespace stepwatch::operations {
namespace {

// Stands for a process that is certainly gone: after a reboot its pid may belong to another process.
constexpr ProcessRef kGoneProcess{0, 0};

// An event with the process's own time may be older than a beat made from its pulse, which has the observer's time.
constexpr double kEventSeconds = 2;

bool IsOf(const control_socket::LeftEnd& end, const KnownProcess& known) {
  // A file of one user is no evidence about another user's process.
  if (end.owner && known.uid && *end.owner != *known.uid) return false;
  const auto is = [&](const base::ProcessIdentity& process) { return process.pid > 0 && process == end.process; };
  return is(known.own) || is(known.process);
}

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

// A process whose state cannot be seen from here stays unknown.
void KnownProcesses::Watch(Entry* entry) {
  const std::optional<bool> has_ended = HasEnded(entry->process, files_);
  if (!has_ended) return;
  const ProcessRef process{entry->process.process.pid, entry->process.process.started};
  base::UniqueFd pidfd = *has_ended ? base::UniqueFd() : OpenPidfd(process, files_);
  entry->end = std::make_shared<ProcessEnd>(
      loop_, std::move(pidfd), *has_ended ? kGoneProcess : process, [this, known = entry->process] { on_end_(known); },
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

std::optional<bool> HasEnded(const KnownProcess& known, base::FileSystem& files) {
  const base::ProcessIdentity own = base::ThisProcess(files);
  const base::ProcessIdentity& process = known.process;
  const bool is_restarted =
      !own.boot_id.empty() && !process.boot_id.empty() && process.host == own.host && process.boot_id != own.boot_id;
  if (is_restarted) return true;
  const std::optional<bool> runs = base::IsRunning(process, files);
  if (!runs) return std::nullopt;
  return !*runs;
}

std::vector<Line> LastLinesOf(const KnownProcess& known, const std::vector<control_socket::LeftEnd>& ends,
                              double reported_t, double now) {
  std::vector<Line> lines;
  for (const control_socket::LeftEnd& end : ends) {
    if (!IsOf(end, known)) continue;
    for (const std::string& text : end.lines) {
      Result<Line> parsed = ParseLine(text);
      if (!parsed.ok() || parsed.value().run != known.run || parsed.value().rank != known.rank) continue;
      Line& line = parsed.value();
      const bool is_event = std::holds_alternative<Event>(line.what);
      if (line.t <= reported_t - (is_event ? kEventSeconds : 0)) continue;
      line.t = std::min(line.t, now);
      lines.push_back(std::move(line));
    }
  }
  lines.push_back({now, known.run, known.rank, Event(ProcessGoneEvent{})});
  return lines;
}

}  // namespace stepwatch::operations
