// The file that a write-back took out of the config's place, kept until no late writer can exist.
//
// An editor that opened the config by name before our exchange may write to that file later, even after we released
// every lease. No single look can rule this out. So the file keeps a name beside the config and an open descriptor for
// a grace period, and is checked repeatedly: bytes written to it are the newest edit, and are exchanged into the
// config's place. While a writer has the file open, the grace period starts again. After it, the file is removed.
//
// The name contains the ids of the user's text and of ours, so the next process can interpret a file that a killed
// process left behind (FindDisplaced).
//
// Thread-compatible, without timers: the caller passes `now` and gets the time of the next look. In a forked child the
// destructor only closes the descriptor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/writeback/exchange.h"
#include "controller/writeback/file_calls.h"

namespace stepwatch::writeback {

// How long after the exchange a late save is still found. A save is lost only if its editor is suspended for longer
// between two system calls.
constexpr std::chrono::milliseconds kDisplacedGrace{5000};

class DisplacedFile {
 public:
  using Clock = std::chrono::steady_clock;

  struct Finding {
    enum class Kind : uint8_t {
      kNothing,
      kPutBack,  // a late edit is in the config file
      kKept,     // a late edit has its own file: the config file holds a newer edit, or cannot be replaced
      kStuck,    // the file can be neither read nor removed; `message` names its path
    };

    Kind kind = Kind::kNothing;
    std::string message;                       // one sentence unless kNothing
    std::optional<Clock::time_point> look_at;  // none: the file needs no further look
  };

  // `files` outlives the object. `path`: its name beside `target`, or empty if it has none. `fd`: open for reading on
  // it. `text`: the id (TextId) of its content when it was taken out.
  DisplacedFile(base::FileSystem& files, std::string target, std::string path, base::UniqueFd fd, std::string text)
      : files_(files), target_(std::move(target)), path_(std::move(path)), fd_(std::move(fd)), text_(std::move(text)) {}

  // The grace period begins with the first look. `ours`: the ids of the texts that Stepwatch has put into the config
  // file.
  Finding Look(Clock::time_point now, const std::set<std::string>& ours);
  // Ends the grace period now, without waiting for writers. A file that is open for writing stays where it is, for
  // FindDisplaced.
  Finding LastLook(Clock::time_point now, const std::set<std::string>& ours);
  bool MayBeWrittenTo() const;
  // True if both are the same file.
  bool IsSameAs(const DisplacedFile& other) const;

 private:
  enum class Last : bool { kNo, kYes };

  Finding Look(Clock::time_point now, const std::set<std::string>& ours, Last last);
  static Finding LookAgain(Clock::time_point now) { return LookAgain(now, Finding()); }
  static Finding LookAgain(Clock::time_point now, Finding finding);
  bool HasWriter() const;
  int Locate(const std::string& path, bool* is_there) const;  // an errno if that is unknown
  bool IsAt(const std::string& path) const;
  bool IsNewerThanTarget() const;
  // Puts the edit into the config's place, or keeps it as a conflict file if the config was edited since then.
  Finding PutIn(const std::string& bytes, Clock::time_point now, const std::set<std::string>& ours, Last last);
  // Writes the edit of a file without a name into a new named file; returns an errno.
  int NameCopy(const std::string& bytes);
  ExchangeResult TakeHandAgain(const std::set<std::string>& ours);
  // From now on watches the file that the edit displaced.
  Finding AfterPuttingIn(ExchangeResult result, Clock::time_point now);
  Finding Remove(Clock::time_point now, Last last);
  // The `error` may be temporary: looks again for another grace period, then returns kStuck.
  Finding RetryOrReport(Clock::time_point now, Last last, const std::string& what, int error) const;

  std::reference_wrapper<base::FileSystem> files_;
  std::string target_;
  std::string path_;
  base::UniqueFd fd_;
  std::string text_;
  std::optional<Clock::time_point> ends_at_;    // end of the grace period
  std::optional<Clock::time_point> edited_at_;  // when an edit whose writer is still busy was first seen
};

// All displaced files of one config, and the texts that Stepwatch has put into it.
class DisplacedFiles {
 public:
  using Clock = DisplacedFile::Clock;
  using Finding = DisplacedFile::Finding;

  void Add(DisplacedFile file);
  // Skips files that are present already.
  void Add(DisplacedFiles files);
  // Marks these bytes (by hash) as written by Stepwatch: not an edit.
  void AddOurs(const std::string& sha256);

  // Returns the findings worth reporting.
  std::vector<Finding> Look(Clock::time_point now);
  std::vector<Finding> LastLook(Clock::time_point now);
  // False: no file is open for writing at this moment. True also where leases are not supported.
  bool MayBeWrittenTo() const;
  size_t size() const { return files_.size(); }
  // Time of the next look; none: there are no files.
  std::optional<Clock::time_point> look_at() const;

 private:
  struct Entry {
    DisplacedFile file;
    std::optional<Clock::time_point> look_at;
  };

  template <class LookAt>
  std::vector<Finding> LookAtEach(LookAt look);

  std::vector<Entry> files_;
  std::set<std::string> ours_;
};

// Adopts the displaced files that a killed process left beside the config at `path`. Only files of the config's owner
// count, so that other users of a shared directory cannot plant an edit. Errors yield no files. `files` outlives the
// result. `older_than`: only files that were not touched for this long.
DisplacedFiles FindDisplaced(const std::string& path, base::FileSystem& files = base::FileSystem::Real(),
                             std::chrono::milliseconds older_than = std::chrono::milliseconds(0));

}  // namespace stepwatch::writeback
