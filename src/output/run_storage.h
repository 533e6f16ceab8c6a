// The file systems for all output of a rank's run, with the limits on its place and size.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/confined_files.h"
#include "src/base/file_system.h"
#include "src/base/metered_files.h"
#include "stepwatch/options.h"
#include "stepwatch/status.h"

namespace stepwatch::output {

class RunStorage {
 public:
  // Without limits both file systems are `files`, which must outlive this object. `base` is the directory of all
  // output. An error means that the root can neither be opened nor created.
  static Result<std::unique_ptr<RunStorage>> Open(const Limits& limits, const std::string& base,
                                                  base::FileSystem& files);

  // Must precede the first write: called when Limits::bytes_max is nearly or wholly used. See base::DiskMeter.
  void OnLevel(std::function<bool()> on_level);

  // For rows: writes beyond Limits::bytes_max fail.
  base::FileSystem& row_files() { return row_files_ ? *row_files_ : *root_files_; }
  // For files about the run (manifest, history, alarms, structure): counted, never limited.
  base::FileSystem& note_files() { return note_files_ ? *note_files_ : *root_files_; }
  // Why files cannot be put below the base, as of the start; Ok: they can.
  const Status& refusal() const { return refusal_; }
  // Null: unlimited.
  base::DiskMeter* meter() { return meter_ ? &*meter_ : nullptr; }

 private:
  explicit RunStorage(base::FileSystem& files) : root_files_(&files) {}

  base::FileSystem* root_files_;
  std::unique_ptr<base::ConfinedFiles> confined_;
  std::optional<base::DiskMeter> meter_;
  std::optional<base::MeteredFiles> row_files_;
  std::optional<base::MeteredFiles> note_files_;
  Status refusal_;
};

}  // namespace stepwatch::output
