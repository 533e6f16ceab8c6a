#include "operations/daemon/settings_watch.h"

#include <utility>

#include "operations/daemon/check_config_command.h"
#include "operations/daemon/log.h"

namespace stepwatch::operations {
namespace {

watch::WatcherOptions OptionsOf(const std::string& path) {
  watch::WatcherOptions options;
  options.path = path;
  return options;
}

}  // namespace

SettingsWatch::SettingsWatch(boost::asio::io_context& loop, std::string path, Log* log, OnSettings on_settings)
    : path_(std::move(path)),
      log_(*log),
      on_settings_(std::move(on_settings)),
      watcher_(loop, io_, OptionsOf(path_),
               watch::Watcher::Callbacks{[this](const watch::FileSnapshot& snapshot) { OnChange(snapshot); },
                                         [](const std::string& bytes) {
                                           return ParseDaemonSettings(bytes).status().code() != StatusCode::kInvalid;
                                         }}) {}

void SettingsWatch::Start() {
  if (!path_.empty()) watcher_.Start();
}

void SettingsWatch::LookNow(std::function<void()> done) {
  if (path_.empty()) return done();
  watcher_.LookNow(std::move(done));
}

void SettingsWatch::OnChange(const watch::FileSnapshot& snapshot) {
  const bool is_first = std::exchange(is_first_, false);
  if (snapshot.kind != watch::SnapshotKind::kBytes)
    return log_.Write(LogLevel::kWarning, path_ + " cannot be read, and the current settings stay: " + snapshot.error);
  const Result<ParsedDaemonSettings> parsed = ParseDaemonSettings(snapshot.bytes);
  if (!parsed.ok())
    return log_.Write(LogLevel::kError, PlacedLine(path_, "rejected, and the current settings stay",
                                                   parsed.status().place(), parsed.status().message()));
  for (const config::Warning& warning : parsed.value().warnings)
    log_.Write(LogLevel::kWarning, PlacedLine(path_, "warning", warning.place, warning.message));
  if (!is_first) log_.Write(LogLevel::kInfo, path_ + ": applied");
  on_settings_(parsed.value().settings);
}

}  // namespace stepwatch::operations
