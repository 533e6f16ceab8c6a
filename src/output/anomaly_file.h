// anomaly.json: the alarms of a run, for `alert.dump`. Format: docs/formats/alarms.md.
//
// A reader finds a complete JSON document at any moment: every save writes a temporary file and renames it. (On a file
// system without links the file is missing for an instant, at the first save over that of an earlier run.) The cost is
// bounded: at most kBytesMax of text are kept, and a save waits 1 s after the previous one and 1 s more for every
// kBytesPerSecond of text. Drain thread only; the time is a parameter.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::output {

class AnomalyFile {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr size_t kBytesMax = size_t{32} << 20;  // about 80,000 alarms
  static constexpr size_t kBytesPerSecond = size_t{4} << 20;

  // The file is `directory`/anomaly.json. A file of an earlier run, if it contains alarms, is kept beside it as
  // stepwatch-anomaly-previous.json.
  explicit AnomalyFile(std::string directory, size_t bytes_max = kBytesMax,
                       base::FileSystem& files = base::FileSystem::Real())
      : directory_(std::move(directory)), files_(files), bytes_max_(bytes_max) {}

  // Makes the next save create the file, if only with an empty object.
  void EnsureExists();
  // Returns false if the file is full and the entry is left out.
  bool Add(const std::string& entry);
  // Makes the next save due at once.
  void Hasten() { hasty_ = true; }

  // Saves if there are changes and the save is due, or at once if `now_or_never`. A failed save is repeated after a
  // second.
  Status Advance(Time now, bool now_or_never);
  // Time of the next call of Advance; nullopt: no changes.
  std::optional<Time> due_at() const;
  bool unsaved() const { return unsaved_; }
  const std::string& path() const { return path_; }

 private:
  Status Save();
  Status WriteTemporary(const std::string& temporary);
  Status Write(int fd, std::string_view text);
  int OpenTemporary(const std::string& temporary);
  void KeepPrevious();

  const std::string directory_;
  base::FileSystem& files_;
  const size_t bytes_max_;
  const std::string path_ = directory_ + "/anomaly.json";
  std::string entries_;
  bool unsaved_ = false;
  bool hasty_ = false;
  bool kept_previous_ = false;
  std::optional<Time> not_before_;
};

}  // namespace stepwatch::output
