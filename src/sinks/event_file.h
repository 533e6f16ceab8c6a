// One event file of TensorBoard: created at the first append, then extended by whole records.
//
// Not thread-safe. If any call fails, the file holds whole records or is cut back to them before the next write, and
// the events of a failed Append are not in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/file_system.h"
#include "src/sinks/event_record.h"
#include "stepwatch/status.h"

namespace stepwatch::sinks {

// "events.out.tfevents.1700000000.host.42": TensorBoard reads every file with "tfevents" in its name, in the order of
// names. Characters of `host` that are invalid in a file name become "_".
std::string EventFileName(int64_t unix_seconds, const std::string& host, int process_id);

class EventFile {
 public:
  // Writes to `directory`/`name`, or to `name`.1, `name`.2 … if that name is taken or the file was removed.
  EventFile(std::string directory, std::string name, base::FileSystem& files = base::FileSystem::Real())
      : files_(files), directory_(std::move(directory)), name_(std::move(name)) {}
  ~EventFile() { (void)Close(); }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // Appends all events, in one write; on an error, none.
  Status Append(std::span<const SummaryEvent> events);
  // An error means that events appended earlier may be missing (network file systems report it only now).
  Status Close();
  // The same; later appends go to a file of another name.
  Status EndFile();
  // Empty before the first append, and after EndFile until the next.
  const std::string& path() const { return path_; }

 private:
  Status Create();
  Status CheckUnchanged();
  int TruncateTo(off_t size);

  base::FileSystem& files_;
  std::string directory_;
  std::string name_;
  std::string path_;
  int serial_ = 0;
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  off_t size_ = 0;     // up to here the file is complete
  bool torn_ = false;  // bytes of a failed append may follow size_
};

}  // namespace stepwatch::sinks
