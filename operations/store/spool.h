// Lines on disk that wait for a receiver: files of lines in a directory, sent oldest first, removed once accepted. They
// survive a kill; a file that was being sent is sent again.
//
// Blocks; for one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "src/base/file_system.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

// The first whole lines, at most this many bytes unless one line has more.
std::string_view FirstLines(std::string_view lines, size_t bytes_max);

class Spool {
 public:
  static constexpr int64_t kFileBytesMax = int64_t{1} << 20;

  // `bytes_max`: beyond it the oldest files are removed. `files` must outlive it.
  Spool(std::string directory, int64_t bytes_max, base::FileSystem& files = base::FileSystem::Real())
      : directory_(std::move(directory)), bytes_max_(bytes_max), files_(files) {}

  void SetBytesMax(int64_t bytes_max) { bytes_max_ = bytes_max; }
  // Makes the directory, and finds the files of the previous process.
  Status Open();
  // Whole lines.
  Status Append(std::string_view lines);
  bool empty() const { return entries_.empty(); }
  // The oldest lines.
  Result<std::string> Oldest() const;
  int64_t oldest_bytes() const { return entries_.front().bytes; }
  int64_t oldest_number() const { return entries_.front().number; }
  // Lines appended from now on go to another file, so that a file that was read stays as it is.
  void Seal() { is_last_ours_ = false; }
  // The oldest lines were accepted.
  void RemoveOldest();
  int64_t bytes() const { return bytes_; }
  int64_t bytes_dropped() const { return bytes_dropped_; }

 private:
  struct Entry {
    int64_t number = 0;
    int64_t bytes = 0;
  };
  std::string PathOf(int64_t number) const;

  const std::string directory_;
  int64_t bytes_max_;
  base::FileSystem& files_;
  std::deque<Entry> entries_;
  int64_t number_last_ = 0;
  bool is_last_ours_ = false;  // the file of a killed process may end in half a line
  int64_t bytes_ = 0;
  int64_t bytes_dropped_ = 0;
};

}  // namespace stepwatch::operations
