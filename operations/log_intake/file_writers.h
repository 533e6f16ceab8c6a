// Finds out that no process of this machine writes the log files of a run any more: the job has ended.
//
// A run whose writers were never seen is not decided on: they may be on another machine, or be those of another user.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operations/logs/file_text.h"
#include "src/base/file_system.h"

namespace stepwatch::operations {

struct FileWriter {
  int pid = 0;
  uint64_t started = 0;  // see base::ProcessIdentity

  bool operator==(const FileWriter&) const = default;
};

inline constexpr size_t kDescriptorsMax = 200000;  // looked at in one search

// The processes that have one of the files open for writing, by file, as far as this process may look at others.
// nullopt: there are more descriptors than are looked at.
std::optional<std::map<FileKey, std::vector<FileWriter>>> FindWriters(const std::set<FileKey>& files_of_interest,
                                                                      base::FileSystem& files);

// It blocks, reads no clock, and is for one thread.
class RunWriters {
 public:
  static constexpr size_t kRunsMax = 1024;
  static constexpr size_t kPathsMax = 4096;  // of a run
  static constexpr double kSilentSeconds = 5;

  explicit RunWriters(base::FileSystem& files) : files_(files) {}

  // The log of the run has a new line.
  void Grew(const std::string& run, const std::string& path, double now);
  // The runs whose writers have been gone since the last call. Call it about once a second.
  std::vector<std::string> Look(double now);

 private:
  struct Run {
    std::set<std::string> paths;
    double grew_t = 0;
    std::vector<FileWriter> writers;  // seen last
    double next_t = 0;                // of a look
    double gap = 1;                   // until the next one
  };

  std::set<FileKey> FilesOf(const Run& run) const;
  bool HasKnownWriter(const Run& run, const std::set<FileKey>& keys) const;

  base::FileSystem& files_;
  std::map<std::string, Run> runs_;
};

}  // namespace stepwatch::operations
