#include "controller/cli/config_change.h"

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "controller/cli/stop_on_signals.h"
#include "controller/writeback/leftover_file.h"
#include "src/base/print.h"

namespace stepwatch::cli {
namespace {

using Clock = writeback::DisplacedFiles::Clock;
using Findings = std::vector<writeback::DisplacedFile::Finding>;
using std::chrono::milliseconds;

constexpr milliseconds kInterval{20};
// Longer than an editor takes from looking up a name to opening its file.
constexpr milliseconds kQuiet{500};
constexpr std::chrono::seconds kChangePatience{30};

void PrintNotes(const Findings& findings) {
  for (const auto& finding : findings) base::Print(stderr, "note: %s\n", finding.message.c_str());
}

}  // namespace

// The process that displaced a younger file watches it.
ConfigChange::ConfigChange(std::string path)
    : path_(std::move(path)),
      displaced_(writeback::FindDisplaced(path_, base::FileSystem::Real(), 2 * writeback::kDisplacedGrace)) {
  PrintNotes(displaced_.Look(Clock::now()));
  PrintNotes(writeback::TidyLeftovers(path_));
}

writeback::WriteBackResult ConfigChange::Make(const std::function<writeback::WriteBackResult()>& edit) {
  writeback::WriteBackResult result = edit();
  displaced_.AddOurs(result.sha256);
  if (result.displaced) displaced_.Add(std::move(*result.displaced));
  result.displaced.reset();
  return result;
}

void ConfigChange::AwaitDisplaced() {
  const StopOnSignals signals;
  const Clock::time_point begin = Clock::now();
  Clock::time_point quiet_since = begin;
  for (;;) {
    const Clock::time_point now = Clock::now();
    const Findings findings = displaced_.Look(now);
    PrintNotes(findings);
    if (!displaced_.look_at()) return;
    if (!findings.empty() || displaced_.MayBeWrittenTo()) quiet_since = now;
    if (interrupted != 0 || now - quiet_since >= kQuiet || now - begin >= kChangePatience) break;
    std::this_thread::sleep_for(kInterval);
  }
  PrintNotes(displaced_.LastLook(Clock::now()));
}

}  // namespace stepwatch::cli
