// Follows the log files of a pattern over renames, removals, compression, copies with truncation, and its own restarts.
//
// Each line is passed on with an id of the text's identity and offset. Positions are kept once the receiver has
// committed them, so that after a kill the lines since then are passed on again, with the same ids. While the receiver
// does not commit, it does not ask for more either: the files are the buffer. A text that was rotated away is read to
// its end where it is now: under a new name, removed but still open, in a copy, or compressed.
//
// It blocks, reads no clock, and is for one thread.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operations/logs/file_pattern.h"
#include "operations/logs/file_positions.h"
#include "operations/logs/file_text.h"
#include "operations/logs/split_lines.h"

namespace stepwatch::operations {

struct FollowedSource {
  std::string path;
  std::string run;  // empty: the pattern does not name it
  std::optional<int64_t> rank;
};

struct FollowedLine {
  std::shared_ptr<const FollowedSource> source;
  std::string identity;
  int64_t offset = 0;
  int64_t end = 0;
  bool ends_inside = false;  // the line was cut at `end`
  std::string text;          // any bytes
  bool is_late = false;      // it was written more than a minute ago, as far as the file shows
  bool may_repeat = false;   // the previous process may have passed it on

  std::string Id() const { return identity + ":" + std::to_string(offset); }
};

// All lines of the text before `offset` are taken care of.
struct FollowedPlace {
  std::string identity;
  int64_t offset = 0;
  bool is_inside = false;
};

struct FollowedBatch {
  std::vector<FollowedLine> lines;
  std::vector<std::string> ended;        // identities of texts that have ended: no line of them follows
  std::vector<std::string> notes;        // each is logged
  std::vector<std::string> directories;  // in which files come and go
  bool has_more = false;                 // read again at once
};

struct FollowerOptions {
  std::string pattern;
  std::string state_file;
  size_t batch_bytes = size_t{1} << 20;
  size_t batch_lines = 4096;
  size_t turn_bytes = size_t{256} << 10;  // of one file, before others have their turn
  size_t line_bytes_max = kLogLineBytesMax;
  double rotate_seconds = 30;      // without a new byte, after which a text that was rotated away has ended
  double scan_seconds = 2;         // between two looks at the directories
  double late_seconds = 60;        // see FollowedLine::is_late
  double history_seconds = 86400;  // files that were last written before are not read when there are no positions yet
  std::function<std::string()> new_identity;
};

struct FollowerCounts {
  int64_t lines = 0;
  int64_t lines_cut = 0;
  int64_t truncations = 0;
  int64_t texts_lost = 0;  // that disappeared before their end was read
  int64_t files = 0;       // open now
};

class FileFollower {
 public:
  explicit FileFollower(FollowerOptions options, base::FileSystem& files = base::FileSystem::Real());
  ~FileFollower();
  FileFollower(const FileFollower&) = delete;
  FileFollower& operator=(const FileFollower&) = delete;

  // The lines since the last call. `scans`: looks at the directories even if the last look was a moment ago.
  FollowedBatch Read(double now, bool scans);
  void Commit(const std::vector<FollowedPlace>& places, double now);
  FollowerCounts counts() const;

 private:
  struct Tracked;
  using Batch = FollowedBatch;
  // A file of which it is not known which text it has.
  struct Unknown {
    std::string path;
    struct stat about;
    PatternMatch match;  // of the log that it belongs to
  };

  void Load(double now, Batch* batch);
  void Save(double now, Batch* batch);
  void Scan(double now, Batch* batch);
  // Adds rotated files of the matches that have changed since following began.
  void AddRotated(const std::vector<PatternMatch>& matches, double now, std::vector<Unknown>* unknown);
  void Adopt(const Unknown& unknown, double now, Batch* batch);
  Tracked* Add(const PatternMatch& match, FileText text, double now);
  // Reads on in `text`, which has the same bytes so far.
  void Attach(Tracked* file, FileText text, double now);
  // Looks for the text in the directory of its file.
  bool FindAgain(Tracked* file, double now);
  Tracked* OriginalOf(const std::string& path, FileText* text, FileKey key);
  // Whether its text is that of a file that is still followed, or may turn out to be.
  bool IsCopy(const std::string& path, FileText* text, const struct stat& about);
  bool IsUnfinishedCopy(const std::string& path, FileText* text, const struct stat& about, double now);
  // Returns whether the file has no more lines at present.
  bool ReadOne(Tracked* file, double now, Batch* batch);
  void Truncate(Tracked* file, double now, Batch* batch);
  void End(Tracked* file, double now, Batch* batch);
  void Pass(Tracked* file, std::string_view bytes, const SplitLines& split, double now, Batch* batch);
  void ForgetOld(double now);

  const FollowerOptions options_;
  base::FileSystem& files_;
  std::vector<std::unique_ptr<Tracked>> tracked_;        // in the order in which they were found
  std::map<FileKey, std::pair<int64_t, int64_t>> done_;  // copies of known texts: size and time of the last change
  std::vector<std::string> directories_;
  std::set<std::string> noted_;
  FollowerCounts counts_;
  bool is_loaded_ = false;
  bool is_new_ = false;    // there were no positions
  bool was_away_ = false;  // for longer than late_seconds
  bool is_scanned_ = false;
  double scanned_t_ = 0;
  double followed_since_t_ = 0;
  double read_t_ = 0;
  double saved_t_ = 0;
  bool is_changed_ = false;
  size_t turn_ = 0;
};

// Whether two names may be those of a log file before and after a rotation: "a.log" and "a.log.1", "a-20300101.log.gz".
// Pure.
bool AreOfOneLog(const std::string& path, const std::string& other);

}  // namespace stepwatch::operations
