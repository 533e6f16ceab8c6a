// A change of a config file by a verb, which ends soon afterwards, so that no process is left to watch the file that
// the change displaced (controller/writeback/displaced_file.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "controller/writeback/config_edit.h"
#include "controller/writeback/displaced_file.h"

namespace stepwatch::cli {

class ConfigChange {
 public:
  // First restores a late edit that a killed process left beside the config.
  explicit ConfigChange(std::string path);

  // Makes one edit of the config. May be called again.
  writeback::WriteBackResult Make(const std::function<writeback::WriteBackResult()>& edit);

  // Waits until no process can still write to the displaced file, and restores a late edit of it. Where leases show the
  // processes that have the file open, that is half a second after the last writer; elsewhere the whole grace. SIGINT
  // and SIGTERM end the wait. A file that a process keeps open stays: the next verb or monitor of the config finds it.
  // Prints notes to standard error.
  void AwaitDisplaced();

 private:
  const std::string path_;
  writeback::DisplacedFiles displaced_;
};

}  // namespace stepwatch::cli
