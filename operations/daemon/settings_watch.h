// Watches the settings file of a running daemon with the watcher of a job's config: the content decides, and after an
// invalid edit the current settings stay.
#pragma once

#include <functional>
#include <string>

#include "controller/watch/watcher.h"
#include "operations/daemon/daemon_settings.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class Log;

class SettingsWatch {
 public:
  using OnSettings = std::function<void(const DaemonSettings& settings)>;

  // `path` empty: no file is watched. The log must outlive it.
  SettingsWatch(boost::asio::io_context& loop, std::string path, Log* log, OnSettings on_settings);

  void Start();
  // Reads the file now, and calls `done` when new settings were applied or refused.
  void LookNow(std::function<void()> done);

 private:
  void OnChange(const watch::FileSnapshot& snapshot);

  const std::string path_;
  Log& log_;
  const OnSettings on_settings_;
  base::IoThread io_{"stepwatch-conf"};
  watch::Watcher watcher_;
  bool is_first_ = true;  // the content at the start
};

}  // namespace stepwatch::operations
