// One CSV file at a time: found or created with its header, then extended by whole lines.
//
// Drain thread only. If any call fails, the file holds whole lines or is cut back to them before the next write, and
// the rows of a failed Append are not in it.
#pragma once

#include <string>
#include <string_view>

#include "src/base/file_system.h"
#include "stepwatch/record_layout.h"
#include "stepwatch/status.h"

namespace stepwatch::sinks {

// The directory of all files of a sink. Created with the first file, and again if it was removed.
struct CsvDirectory {
  std::string path;
  bool made = false;
};

struct WantedFile {
  std::string stem;     // "actv_0-4", of "actv_0-4.csv"
  std::string header;   // its first line, "\n" included
  PlanId plan_id = 0;   // for the name of a second file, when the first has another header
  bool is_new = false;  // leave an existing file alone, unless it was created for the same request

  bool operator==(const WantedFile&) const = default;
};

class CsvFile {
 public:
  CsvFile(base::FileSystem& files, CsvDirectory* directory) : files_(files), directory_(*directory) {}
  ~CsvFile() { (void)Close(); }
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  // Appends `rows`, whole lines, to the wanted file: all of them or, with an error, none.
  Status Append(const WantedFile& wanted, std::string_view rows);
  // An error means that rows appended earlier may be missing (network file systems report it only now).
  Status Close();
  // Path of the open file; empty if none is open.
  std::string path() const { return fd_ < 0 ? "" : path_; }

 private:
  enum class Found { kNothing, kOurs, kOtherHeader };

  Status OpenOrCreate(std::string_view rows, bool* appended);
  Result<Found> OpenExisting();
  Result<Found> Inspect();
  Result<bool> HeaderMatches();
  Status CutPartialLine();
  Result<bool> Create(std::string_view rows);
  Status OpenTemporary();
  Result<bool> Publish();
  Status CheckUnchanged();
  Status AppendRows(std::string_view rows);
  int TruncateTo(off_t size);
  void CloseAsItIs();

  base::FileSystem& files_;
  CsvDirectory& directory_;
  WantedFile wanted_;
  std::string path_;
  int attempt_ = -1;       // of its name; -1: the wanted file was not found or created yet
  std::string temporary_;  // not empty: a temporary name that must still be unlinked
  std::string buffer_;     // header and first rows
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  off_t size_ = 0;     // up to here the file is complete and written by this object
  bool torn_ = false;  // bytes of a failed append may follow size_
};

}  // namespace stepwatch::sinks
