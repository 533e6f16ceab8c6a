// The settings of a running daemon: their file is looked after by the watcher that looks after a job's config, so that
// content is the truth, and a bad edit leaves what runs.
#pragma once

#include <functional>
#include <string>

#include "controller/watch/watcher.h"
#include "operations/settings/daemon_settings.h"
#include "src/base/io_executor.h"

namespace boost::asio {
class io_context;
}

namespace stepwatch::operations {

class Log;

class SettingsWatch {
 public:
  using OnSettings = std::function<void(const DaemonSettings& settings)>;

  // `path` empty: there is no file, and nothing changes. The log outlives it.
  SettingsWatch(boost::asio::io_context& loop, std::string path, Log* log, OnSettings on_settings);

  void Start();
  // Looks now, and calls `done` when whatever is new was taken over or refused.
  void LookNow(std::function<void()> done);

 private:
  void OnChange(const watch::FileSnapshot& snapshot);

  const std::string path_;
  Log& log_;
  const OnSettings on_settings_;
  base::IoThread io_{"stepwatch-conf"};
  watch::Watcher watcher_;
  bool is_first_ = true;  // what was read at the start
};

}  // namespace stepwatch::operations
