// The file that a write-back took out of the config's place, kept until nobody can be about to write to it.
//
// An editor that looked the config up before our exchange may open what it found a little later and write into it, long
// after we released every lease. No look at one moment can tell whether such an editor exists. So the file keeps a
// name beside the config for a grace, a descriptor to it stays open, and it is looked at again and again: what was
// written there is the newest edit, and goes into the config's place by an exchange. While a writer has the file open,
// the grace starts again. Only then is the file removed.
//
// The name says which text of the user and which of ours the write-back was about, so whatever a killed process leaves
// behind is understood by the next one (FindDisplaced).
//
// Thread-compatible, without timers: `now` goes in, and when to look again comes out. A forked child does nothing here:
// the destructor only closes the descriptor.
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

// For how long after the exchange a late save is still found. An editor would have to be stopped for longer between
// two system calls of one save to lose it.
constexpr std::chrono::milliseconds kDisplacedGrace{5000};

class DisplacedFile {
 public:
  using Clock = std::chrono::steady_clock;

  struct Finding {
    enum class Kind : uint8_t {
      kNothing,
      kPutBack,  // a late edit is in the config file
      kKept,     // a late edit is in a file of its own: the config file holds a newer edit, or cannot be replaced
      kStuck,    // the file can be neither read nor removed; `message` says where it lies
    };

    Kind kind = Kind::kNothing;
    std::string message;                       // one sentence unless kNothing
    std::optional<Clock::time_point> look_at;  // none: there is nothing left to look at
  };

  // `files` outlives the object. `path`: its name beside `target`, or empty if it has none. `fd`: open for reading on
  // it. `text`: the id (TextId) of what it held when it was taken out.
  DisplacedFile(base::FileSystem& files, std::string target, std::string path, base::UniqueFd fd, std::string text)
      : files_(files), target_(std::move(target)), path_(std::move(path)), fd_(std::move(fd)), text_(std::move(text)) {}

  // The grace begins with the first look. `ours`: the ids of the texts that we ourselves have put into the config file.
  Finding Look(Clock::time_point now, const std::set<std::string>& ours);
  // Ends the grace now, without waiting for anybody. A file that somebody has open for writing is left where it is, for
  // FindDisplaced.
  Finding LastLook(Clock::time_point now, const std::set<std::string>& ours);
  bool MayBeWrittenTo() const;
  // Both are of one file.
  bool IsSameAs(const DisplacedFile& other) const;

 private:
  enum class Last : bool { kNo, kYes };

  Finding Look(Clock::time_point now, const std::set<std::string>& ours, Last last);
  static Finding LookAgain(Clock::time_point now) { return LookAgain(now, Finding()); }
  static Finding LookAgain(Clock::time_point now, Finding finding);
  bool HasWriter() const;
  int Locate(const std::string& path, bool* is_there) const;  // an errno, if that cannot be known
  bool IsAt(const std::string& path) const;
  bool IsNewerThanTarget() const;
  // Puts the edit into the config's place, or keeps it as a conflict file if the config was edited since.
  Finding PutIn(const std::string& bytes, Clock::time_point now, const std::set<std::string>& ours, Last last);
  // Gives an edit in a file without a name a name; an errno.
  int NameCopy(const std::string& bytes);
  ExchangeResult TakeHandAgain(const std::set<std::string>& ours);
  // Watches what the edit displaced from now on.
  Finding AfterPuttingIn(ExchangeResult result, Clock::time_point now);
  Finding Remove(Clock::time_point now, Last last);
  // The `error` may pass: looks again until another grace is over, then is stuck.
  Finding RetryOrTell(Clock::time_point now, Last last, const std::string& what, int error) const;

  std::reference_wrapper<base::FileSystem> files_;
  std::string target_;
  std::string path_;
  base::UniqueFd fd_;
  std::string text_;
  std::optional<Clock::time_point> ends_at_;    // of the grace
  std::optional<Clock::time_point> edited_at_;  // when the edit that waits for its writer was seen first
};

// All displaced files of one config, and the texts that we have put into it.
class DisplacedFiles {
 public:
  using Clock = DisplacedFile::Clock;
  using Finding = DisplacedFile::Finding;

  void Add(DisplacedFile file);
  // A file that is here already is left out.
  void Add(DisplacedFiles files);
  // These bytes (by hash) in the config file are nobody's edit.
  void AddOurs(const std::string& sha256);

  // Answers what is worth telling.
  std::vector<Finding> Look(Clock::time_point now);
  std::vector<Finding> LastLook(Clock::time_point now);
  // False: at this moment nobody has one of them open for writing. True also where there are no leases to tell.
  bool MayBeWrittenTo() const;
  size_t size() const { return files_.size(); }
  // When to look again; none: there are no files.
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

// Takes over what a killed process left beside the config at `path`. Only files of the config's owner count: in a
// directory that is everybody's, nobody else can plant an edit. Errors mean that there is nothing to take over. `files`
// outlives what is found. `older_than`: only files that nobody has touched for so long.
DisplacedFiles FindDisplaced(const std::string& path, base::FileSystem& files = base::FileSystem::Real(),
                             std::chrono::milliseconds older_than = std::chrono::milliseconds(0));

}  // namespace stepwatch::writeback
