#include "operations/discovery/known_process.h"

#include <algorithm>

#include "operations/trace/parse_line.h"

namespace stepwatch::operations {
namespace {

// An event of the process's own time may be older than a beat that was made of its pulse, which has the observer's.
constexpr double kEventSeconds = 2;

bool IsOf(const control_socket::LeftEnd& end, const KnownProcess& known) {
  // A file that one user has left says nothing of another's process.
  if (end.owner && known.uid && *end.owner != *known.uid) return false;
  const auto is = [&](const base::ProcessIdentity& process) { return process.pid > 0 && process == end.process; };
  return is(known.own) || is(known.process);
}

}  // namespace

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
                              double told_t, double now) {
  std::vector<Line> lines;
  for (const control_socket::LeftEnd& end : ends) {
    if (!IsOf(end, known)) continue;
    for (const std::string& text : end.lines) {
      Result<Line> parsed = ParseLine(text);
      if (!parsed.ok() || parsed.value().run != known.run || parsed.value().rank != known.rank) continue;
      Line& line = parsed.value();
      const bool is_event = std::holds_alternative<Event>(line.what);
      if (line.t <= told_t - (is_event ? kEventSeconds : 0)) continue;
      line.t = std::min(line.t, now);
      lines.push_back(std::move(line));
    }
  }
  lines.push_back({now, known.run, known.rank, Event(ProcessGoneEvent{})});
  return lines;
}

}  // namespace stepwatch::operations
