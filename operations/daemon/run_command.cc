#include "operations/daemon/run_command.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string StateDirectory(const std::string& named) {
  if (!named.empty()) return named;
  // systemd passes several names with colons between them.
  if (const std::string given = Variable("STATE_DIRECTORY"); !given.empty()) return given.substr(0, given.find(':'));
  if (const std::string given = Variable("XDG_STATE_HOME"); !given.empty()) return base::JoinPath(given, "stepwatchd");
  const std::string home = Variable("HOME");
  return home.empty() ? "" : base::JoinPath(home, ".local/state/stepwatchd");
}

// A mapped file, such as the index of the store's log, may be cut short by another program. The missing part is then
// read as zeros, and the reader detects the damage.
void ReadZerosWhereFilesWereCut() {
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  action.sa_sigaction = [](int number, siginfo_t* about, void*) {
    static const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const uintptr_t page = reinterpret_cast<uintptr_t>(about->si_addr) & ~(page_bytes - 1);
    const bool is_cut = about->si_code == BUS_ADRERR;
    constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (is_cut &&
        ::mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ | PROT_WRITE, kPrivate, -1, 0) != MAP_FAILED)
      return;
    (void)std::signal(number, SIG_DFL);
  };
  (void)::sigaction(SIGBUS, &action, nullptr);
}

Result<DaemonSettings> ReadSettings(const std::string& path) {
  if (path.empty()) return DaemonSettings();
  Result<ParsedDaemonSettings> parsed = ReadSettingsFile(path);
  if (parsed.ok()) return std::move(parsed).value().settings;
  return Status(parsed.status().code(), PlacedLine(path, "error", parsed.status().place(), parsed.status().message()));
}

// A fault of one handler ends that handler only.
void RunLoop(boost::asio::io_context& loop, Log* log) {
  for (;;) {
    try {
      loop.run();
      return;
    } catch (const std::exception& error) {
      log->Write(LogLevel::kError, std::string("internal error: ") + error.what());
    }
  }
}

class Running {
 public:
  Running(DaemonOptions options, const std::string& config, Log* log)
      : log_(*log),
        daemon_(loop_, std::move(options), log),
        settings_(loop_, config, log, [this](const DaemonSettings& settings) { TakeSettings(settings); }) {}

  int Run() {
    if (const Status status = daemon_.Start(); !status.ok()) {
      log_.Write(LogLevel::kError, status.message());
      return 1;
    }
    settings_.Start();
    AwaitSignal();
    log_.Write(LogLevel::kInfo, std::string("stepwatchd ") + kVersion + " listens at " + daemon_.intake().path());
    NotifyService("READY=1");
    RunLoop(loop_, &log_);
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
    log_.Write(LogLevel::kInfo, "ends on signal " + std::to_string(number));
    NotifyService("STOPPING=1");
    daemon_.Stop();
    loop_.stop();
  }

  void TakeSettings(const DaemonSettings& settings) {
    const std::string later = daemon_.Apply(settings);
    if (!later.empty()) log_.Write(LogLevel::kWarning, "takes effect at the next start of stepwatchd:" + later);
  }

  Log& log_;
  boost::asio::io_context loop_{1};
  Daemon daemon_;
  SettingsWatch settings_;
  boost::asio::signal_set signals_{loop_, SIGTERM, SIGINT, SIGHUP};
};

}  // namespace

int RunDaemon(const RunArguments& arguments) {
  // A disconnected peer, and a file at its size limit, are reported as errors of calls.
  (void)std::signal(SIGPIPE, SIG_IGN);
  (void)std::signal(SIGXFSZ, SIG_IGN);
  ReadZerosWhereFilesWereCut();
  (void)::umask(0077);
  Log log;
  const Result<DaemonSettings> settings = ReadSettings(arguments.config);
  if (!settings.ok()) {
    log.Write(LogLevel::kError, settings.status().message());
    return 2;
  }
  DaemonOptions options;
  options.settings = settings.value();
  options.state_directory = StateDirectory(arguments.state);
  options.socket = arguments.socket;
  if (options.state_directory.empty()) {
    log.Write(LogLevel::kError, "no state directory: name one with --state");
    return 1;
  }
  return Running(std::move(options), arguments.config, &log).Run();
}

}  // namespace stepwatch::operations
