// The files of a run's history: stepwatch_history.jsonl, and stepwatch_configs/{sha256}.json with each text that its
// lines speak of, once.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/file_system.h"
#include "src/output/history.h"

namespace stepwatch::output {

struct HistoryEntry {
  HistoryLine line;
  std::shared_ptr<const std::string> config_text;  // of `line.sha256`; null: it is kept already
};

// Appends the lines to the history in the run's `directory`, and keeps their texts; both are on the disk when it is Ok.
// After a failure none of the lines is in the file. A line that a killed process left half-written stays a line of its
// own.
Status AppendHistory(const std::string& directory, const std::vector<HistoryEntry>& entries,
                     base::FileSystem& files = base::FileSystem::Real());

// Which histories are read, and how much of them is kept in memory. A line has at most 256 KiB.
struct HistoryQuestion {
  // With an owner only this user's regular files are read, and others that lie in an output base are passed over. So
  // asks a training process, in whose base others may have put what they like. Without one: whose ever they are.
  std::optional<uid_t> owner = std::nullopt;
  size_t lines_max = std::numeric_limits<size_t>::max();  // of each history, the last ones
  size_t bytes_max = size_t{256} << 20;                   // of the lines of all, of the newest files first
  std::string word = {};                                  // lines without it are passed over; empty: none are
};

// This process's own files, in as little memory as a training process has for it.
HistoryQuestion OwnHistory(std::string word = {});

// One history and where it lies.
struct FoundHistory {
  std::string directory;  // of the run
  History history;
  Status status = {};  // why nothing of it can be read
};

// `path`: a history, the directory of a run, or an output base, whose runs come in the order of their first lines.
// Notes name the file that they are about; what cannot be read of an output base is a note as well.
Result<std::vector<FoundHistory>> FindHistories(const std::string& path, const HistoryQuestion& question = {},
                                                base::FileSystem& files = base::FileSystem::Real());

// The text with this hash that the run's history keeps. `owner`: as in a HistoryQuestion.
Result<std::string> KeptConfig(const std::string& directory, const std::string& sha256,
                               std::optional<uid_t> owner = std::nullopt,
                               base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::output
