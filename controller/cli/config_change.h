// A change of a config file by a verb, which ends soon afterwards: nobody is left then to look after what the change
// displaced (controller/writeback/displaced_file.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "controller/writeback/config_edit.h"
#include "controller/writeback/displaced_file.h"

namespace stepwatch::cli {

class ConfigChange {
 public:
  // First puts in a late edit that a killed process left beside the config.
  explicit ConfigChange(std::string path);

  // Makes one edit of the config. May be called again.
  writeback::WriteBackResult Make(const std::function<writeback::WriteBackResult()>& edit);

  // Waits until nobody can be about to write to what was displaced, and puts in what was written there. Where leases
  // tell who has the file open, that is half a second after the last writer; elsewhere the whole grace. SIGINT and
  // SIGTERM end it at once. A file that somebody keeps open is left where it is: the next verb or the next monitor of
  // the config finds it. What is worth telling goes to standard error.
  void LookAfterDisplaced();

 private:
  const std::string path_;
  writeback::DisplacedFiles displaced_;
};

}  // namespace stepwatch::cli
