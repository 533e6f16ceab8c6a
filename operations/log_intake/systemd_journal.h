// The journal of systemd through libsystemd, opened at run time. All calls may block on files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "operations/log_intake/sent_line.h"
#include "stepwatch/status.h"

namespace stepwatch::operations {

inline constexpr const char* kSystemdLibrary = "libsystemd.so.0";

struct JournalOptions {
  // Names of units, or matches FIELD=VALUE; an entry needs one of them.
  std::vector<std::string> matches;
  std::string directory;  // empty: the journal of this machine
  std::string host;       // of this machine, whose process ids are those of the entries
  std::string library = kSystemdLibrary;
};

struct JournalBatch {
  std::vector<SentLine> lines;
  size_t bytes = 0;
  std::string cursor;  // of the last line; empty: no line
};

class SystemdJournal {
 public:
  // Begins behind the entry of `cursor`; without one, behind the present last entry. kNotFound: there is no library.
  // `note` gets a reason for the log if the entry of the cursor is no longer there.
  static Result<std::unique_ptr<SystemdJournal>> Open(const JournalOptions& options, const std::string& cursor,
                                                      const std::function<void(const std::string& note)>& note);
  ~SystemdJournal();
  SystemdJournal(const SystemdJournal&) = delete;
  SystemdJournal& operator=(const SystemdJournal&) = delete;

  // The next entries, at most some; waits for the first one for as long.
  Result<JournalBatch> Read(uint64_t wait_us);

 private:
  struct Functions;
  SystemdJournal();

  Status AddMatches(const std::vector<std::string>& matches);
  Status Seek(const std::string& cursor, const std::function<void(const std::string& note)>& note);
  std::string Field(const char* name);
  SentLine Entry();

  std::unique_ptr<Functions> functions_;
  std::string host_;
  bool has_entry_ = false;  // the present entry has not been returned
};

}  // namespace stepwatch::operations
