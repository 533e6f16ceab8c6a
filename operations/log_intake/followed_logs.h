// The followers of all patterns of log files, and a reader for each text: lines in files become records.
//
// It blocks, reads no clock, and is for one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "operations/log_intake/file_writers.h"
#include "operations/log_intake/lazy_recogniser.h"
#include "operations/log_intake/log_records.h"
#include "operations/log_intake/log_settings.h"
#include "operations/logs/file_follower.h"
#include "src/base/file_system.h"
#include "src/logs/reader.h"

namespace stepwatch::operations {

// A place in a text of a pattern's files; all before it is in records.
struct LogPlace {
  std::string pattern;
  FollowedPlace place;
};

struct LogBatch {
  std::vector<RunRecord> records;
  std::vector<LogPlace> places;  // to commit once the records are safe
  std::vector<std::string> notes;
  std::vector<std::string> directories;  // in which files come and go
  std::vector<std::string> runs_over;    // no process writes their files any more
  bool has_more = false;                 // read again at once
  size_t bytes = 0;                      // of the lines
};

class FollowedLogs {
 public:
  FollowedLogs(std::string state_directory, std::shared_ptr<LazyRecogniser> recogniser,
               base::FileSystem& files = base::FileSystem::Real());
  ~FollowedLogs();
  FollowedLogs(const FollowedLogs&) = delete;
  FollowedLogs& operator=(const FollowedLogs&) = delete;

  // Patterns that stay are followed on. Positions of the others are kept on disk.
  void Apply(const std::vector<LogFilesSettings>& settings);
  void Commit(const std::vector<LogPlace>& places, double now);
  // The records since the last call, of about 256 KiB of text at most. `scans`: looks at the directories, and for
  // writers, even if the last look was a moment ago.
  LogBatch Read(double now, bool scans);
  FollowerCounts counts() const;

 private:
  // One text: of a file, whatever its name.
  struct Text {
    std::unique_ptr<logs::Reader> reader;
    std::shared_ptr<const FollowedSource> source;
    FollowedPlace read;  // the end of the last line
    int64_t passed = 0;  // the last place in a batch
    int64_t late_until = 0;
    int64_t repeat_until = 0;
  };
  struct Pattern {
    LogFilesSettings settings;
    std::unique_ptr<FileFollower> follower;
    std::map<std::string, Text> texts;  // by identity
  };

  void Add(const FollowedLine& line, double now, Pattern* pattern, LogBatch* batch);
  void Flush(double until, Pattern* pattern, Text* text, LogBatch* batch);
  void AddRecords(const Pattern& pattern, const Text& text, std::vector<logs::Record> records, LogBatch* batch) const;

  const std::string state_directory_;
  const std::shared_ptr<LazyRecogniser> recogniser_;
  const std::string host_;
  base::FileSystem& files_;
  std::vector<Pattern> patterns_;
  RunWriters writers_;
  FollowerCounts counts_before_;  // of patterns that are followed no more
  size_t turn_ = 0;
};

}  // namespace stepwatch::operations
