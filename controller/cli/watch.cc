#include "controller/cli/watch.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Option.hpp>
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "controller/cli/print_answer.h"
#include "controller/cli/text/text_table.h"
#include "controller/cli/verbs.h"
#include "controller/watch/watcher.h"
#include "src/base/io_executor.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "src/config/parse_config.h"
#include "src/json/json.h"

namespace stepwatch::cli {
namespace {

using EventKind = WatchEvent::Kind;

double ToMicroseconds(double seconds) {
  return std::round(seconds * 1e6) / 1e6;
}

WatchEvent WithoutBytes(EventKind kind, const watch::FileSnapshot& snapshot) {
  WatchEvent event;
  event.kind = kind;
  event.error = snapshot.error;
  return event;
}

}  // namespace

const char* WatchEventName(EventKind kind) {
  switch (kind) {
    case EventKind::kAccepted: return "accepted";
    case EventKind::kRefused: return "refused";
    case EventKind::kMissing: return "missing";
    case EventKind::kUnreadable: return "unreadable";
    case EventKind::kRestored: return "restored";
  }
  return "unknown";
}

std::string ToJsonLine(const WatchEvent& event, double seconds) {
  Json object;
  object["event"] = WatchEventName(event.kind);
  if (!event.sha256.empty()) object["sha256"] = event.sha256;
  if (event.bytes >= 0) object["bytes"] = event.bytes;
  if (event.line > 0) object["line"] = event.line;
  if (event.column > 0) object["column"] = event.column;
  if (!event.error.empty()) object["error"] = event.error;
  for (const config::Warning& warning : event.warnings)
    object["warnings"].push_back({{"key", warning.place.key},
                                  {"line", warning.place.line},
                                  {"column", warning.place.column},
                                  {"message", warning.message}});
  object["t"] = ToMicroseconds(seconds);
  return json::Dump(object);
}

std::string ToHumanLine(const WatchEvent& event, double seconds) {
  std::string line = fmt::format("{:10.3f} s  {:<10}", seconds, WatchEventName(event.kind));
  if (event.bytes >= 0) line += fmt::format("  {} bytes, sha256 {}", event.bytes, event.sha256.substr(0, kHashShown));
  if (!event.error.empty()) line += (event.bytes >= 0 ? ": " : "  ") + event.error;
  for (const config::Warning& warning : event.warnings)
    line += fmt::format("\n{:>14}{:<10}  {}", "", "warning",
                        base::Printable(Status(StatusCode::kInvalid, warning.message, warning.place).ToString(), 1000));
  return line;
}

WatchEvent WatchEvents::OnChange(const watch::FileSnapshot& snapshot) {
  const bool was_troubled = is_troubled_;
  is_troubled_ = true;
  if (snapshot.kind == watch::SnapshotKind::kMissing) return WithoutBytes(EventKind::kMissing, snapshot);
  if (snapshot.kind != watch::SnapshotKind::kBytes) return WithoutBytes(EventKind::kUnreadable, snapshot);

  WatchEvent event;
  event.sha256 = snapshot.sha256;
  event.bytes = static_cast<int64_t>(snapshot.bytes.size());
  const Result<config::ParsedConfig> parsed = config::ParseConfig(snapshot.bytes);
  if (!parsed.ok()) {
    const Status refusal = parsed.status();
    event.kind = EventKind::kRefused;
    event.line = refusal.place().line;
    event.column = refusal.place().column;
    event.error = refusal.ToString();
    return event;
  }
  event.kind = was_troubled && snapshot.sha256 == accepted_ ? EventKind::kRestored : EventKind::kAccepted;
  event.warnings = parsed.value().warnings;
  accepted_ = snapshot.sha256;
  is_troubled_ = false;
  return event;
}

namespace {

struct WatchArguments {
  std::string file;
  bool json = false;
  double for_seconds = 0;  // not positive: no limit
  bool poll_only = false;
};

using Clock = std::chrono::steady_clock;

// A steady_clock duration holds it without overflow.
constexpr double kWatchSecondsMax = 1e9;

// Only text that is not JSON looks like the first half of a file; a wrong value in it stays wrong.
bool LooksWhole(const std::string& bytes) {
  const Result<config::ParsedConfig> parsed = config::ParseConfig(bytes);
  return parsed.ok() || parsed.status().code() != StatusCode::kInvalid;
}

class WatchSession {
 public:
  explicit WatchSession(const WatchArguments& arguments)
      : arguments_(arguments),
        signals_(loop_, SIGINT, SIGTERM),
        deadline_(loop_),
        look_for_reader_(loop_),
        watcher_(loop_, io_, Options(), Calls()) {}

  int Run() {
    signals_.async_wait([this](const boost::system::error_code&, int) { loop_.stop(); });
    if (arguments_.for_seconds > 0) {
      const std::chrono::duration<double> limit(std::min(arguments_.for_seconds, kWatchSecondsMax));
      deadline_.expires_after(std::chrono::duration_cast<Clock::duration>(limit));
      deadline_.async_wait([this](const boost::system::error_code&) { loop_.stop(); });
    }
    LookForReader();
    watcher_.Start();
    loop_.run();
    return exit_code_;
  }

 private:
  // Changes may be rare.
  void LookForReader() {
    if (OutputIsClosed()) return loop_.stop();
    look_for_reader_.expires_after(std::chrono::milliseconds(200));
    look_for_reader_.async_wait([this](const boost::system::error_code& error) {
      if (!error) LookForReader();
    });
  }

  watch::WatcherOptions Options() const {
    watch::WatcherOptions options;
    options.path = arguments_.file;
    options.use_inotify = !arguments_.poll_only;
    return options;
  }

  watch::Watcher::Callbacks Calls() {
    return {.on_change = [this](const watch::FileSnapshot& snapshot) { Print(events_.OnChange(snapshot)); },
            .looks_whole = LooksWhole};
  }

  void Print(const WatchEvent& event) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const std::string line = (arguments_.json ? ToJsonLine(event, seconds) : ToHumanLine(event, seconds)) + "\n";
    if (PrintAtOnce(line)) return;
    base::Print(stderr, "stepwatch watch: cannot write to standard output: %s\n",
                std::generic_category().message(errno).c_str());
    exit_code_ = 1;
    loop_.stop();
  }

  const WatchArguments arguments_;
  const Clock::time_point start_ = Clock::now();
  boost::asio::io_context loop_{1};
  boost::asio::signal_set signals_;
  boost::asio::steady_timer deadline_, look_for_reader_;
  WatchEvents events_;
  int exit_code_ = 0;
  base::IoThread io_;
  watch::Watcher watcher_;
};

// Prints one line per event, flushed at once, until SIGINT, SIGTERM or the time is over. The exit code: 0, or 1 if
// standard output cannot be written.
int RunWatch(const WatchArguments& arguments) {
  return WatchSession(arguments).Run();
}

}  // namespace

void AddWatch(CLI::App* app, int* exit_code) {
  const auto arguments = std::make_shared<WatchArguments>();
  CLI::App* verb =
      app->add_subcommand("watch", "Run the watcher on a config file and print each change that it detects");
  verb->add_option("FILE", arguments->file, "config.json; it may not exist yet")->required();
  verb->add_flag("--json", arguments->json, "one JSON object per line");
  verb->add_option("--for", arguments->for_seconds, "exit after this many seconds");
  verb->add_flag("--poll-only", arguments->poll_only, "poll every second instead of using inotify");
  verb->callback([=] { *exit_code = RunWatch(*arguments); });
}

}  // namespace stepwatch::cli
