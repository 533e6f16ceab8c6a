#include "controller/cli/watch_command.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <system_error>
#include <utility>

#include "controller/cli/print_answer.h"
#include "controller/cli/watch_events.h"
#include "controller/watch/watcher.h"
#include "src/base/io_executor.h"
#include "src/base/print.h"
#include "src/config/parse_config.h"

namespace stepwatch::cli {
namespace {

using Clock = std::chrono::steady_clock;

// What a steady_clock duration holds without overflow, and more than anybody waits.
constexpr double kWatchSecondsMax = 1e9;

// Only text that is not JSON looks like the first half of a file; a wrong value in it does not get better by waiting.
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

}  // namespace

int RunWatch(const WatchArguments& arguments) {
  return WatchSession(arguments).Run();
}

}  // namespace stepwatch::cli
