#include "operations/daemon/run_command.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>

#include "operations/daemon/check_config_command.h"
#include "operations/daemon/daemon.h"
#include "operations/daemon/log.h"
#include "operations/daemon/notify_service.h"
#include "operations/daemon/settings_watch.h"
#include "src/base/file.h"
#include "stepwatch/version.h"

namespace stepwatch::operations {
namespace {

constexpr mode_t kOnlyOurs = 0700;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string StateDirectory(const std::string& named) {
  if (!named.empty()) return named;
  // systemd names several with colons between them.
  if (const std::string given = Variable("STATE_DIRECTORY"); !given.empty()) return given.substr(0, given.find(':'));
  if (const std::string given = Variable("XDG_STATE_HOME"); !given.empty()) return base::JoinPath(given, "stepwatchd");
  const std::string home = Variable("HOME");
  return home.empty() ? "" : base::JoinPath(home, ".local/state/stepwatchd");
}

// Makes the directory, and holds it as long as the descriptor is open: two daemons would tell everything twice.
Result<base::UniqueFd> HoldStateDirectory(const std::string& directory) {
  if (directory.empty()) return Status(StatusCode::kInvalid, "no state directory: name one with --state");
  base::FileSystem& files = base::FileSystem::Real();
  if (Status made = base::MakeDirectories(base::DirectoryOf(directory)); !made.ok()) return made;
  if (files.MakeDirectory(directory.c_str(), kOnlyOurs) != 0 && errno != EEXIST)
    return base::ErrnoStatus("cannot make", directory, errno);
  Result<base::UniqueFd> lock = base::Open(base::JoinPath(directory, "stepwatchd.lock"), O_RDWR | O_CREAT, 0600);
  if (!lock.ok()) return lock;
  if (files.Lock(lock.value().get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK)
    return Status(StatusCode::kUnavailable, "another stepwatchd has its state in " + directory +
                                                "; end that one, or name another directory with --state");
  return base::ErrnoStatus("cannot lock", directory, errno);
}

Result<DaemonSettings> ReadSettings(const std::string& path) {
  if (path.empty()) return DaemonSettings();
  Result<ParsedDaemonSettings> parsed = ReadSettingsFile(path);
  if (parsed.ok()) return std::move(parsed).value().settings;
  return Status(parsed.status().code(), PlacedLine(path, "error", parsed.status().place(), parsed.status().message()));
}

// A fault of one handler ends that one.
void RunLoop(boost::asio::io_context& loop) {
  for (;;) {
    try {
      loop.run();
      return;
    } catch (const std::exception& error) {
      Log(LogLevel::kError, std::string("a fault in stepwatchd: ") + error.what());
    }
  }
}

class Running {
 public:
  Running(DaemonOptions options, const std::string& config)
      : daemon_(loop_, std::move(options)),
        settings_(loop_, config, [this](const DaemonSettings& settings) { TakeSettings(settings); }) {}

  int Run() {
    if (const Status status = daemon_.Start(); !status.ok()) {
      Log(LogLevel::kError, status.message());
      return 1;
    }
    settings_.Start();
    AwaitSignal();
    Log(LogLevel::kInfo, std::string("stepwatchd ") + kVersion + " answers at " + daemon_.intake().path());
    NotifyService("READY=1");
    RunLoop(loop_);
    return 0;
  }

 private:
  void AwaitSignal() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      if (number != SIGHUP) return End(number);
      NotifyReloading();
      settings_.LookNow([] { NotifyService("READY=1"); });
      AwaitSignal();
    });
  }

  void End(int number) {
    Log(LogLevel::kInfo, "ends on signal " + std::to_string(number));
    NotifyService("STOPPING=1");
    daemon_.Stop();
    loop_.stop();
  }

  void TakeSettings(const DaemonSettings& settings) {
    const std::string later = daemon_.Apply(settings);
    if (!later.empty()) Log(LogLevel::kWarning, "holds from the next start of stepwatchd on:" + later);
  }

  boost::asio::io_context loop_{1};
  Daemon daemon_;
  SettingsWatch settings_;
  boost::asio::signal_set signals_{loop_, SIGTERM, SIGINT, SIGHUP};
};

}  // namespace

int RunDaemon(const RunArguments& arguments) {
  // A peer that has gone, and a file that may not grow, are errors of calls.
  (void)std::signal(SIGPIPE, SIG_IGN);
  (void)std::signal(SIGXFSZ, SIG_IGN);
  (void)::umask(0077);
  const Result<DaemonSettings> settings = ReadSettings(arguments.config);
  if (!settings.ok()) {
    Log(LogLevel::kError, settings.status().message());
    return 2;
  }
  DaemonOptions options;
  options.settings = settings.value();
  options.state_directory = StateDirectory(arguments.state);
  options.socket = arguments.socket;
  const Result<base::UniqueFd> lock = HoldStateDirectory(options.state_directory);
  if (!lock.ok()) {
    Log(LogLevel::kError, lock.status().message());
    return 1;
  }
  return Running(std::move(options), arguments.config).Run();
}

}  // namespace stepwatch::operations
