// The files of a run's history: stepwatch_history.jsonl, and stepwatch_configs/{sha256}.json with each config text that
// its lines refer to, once.
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
  std::shared_ptr<const std::string> config_text;  // of `line.sha256`; null: already kept
};

// Appends the lines to the history in the run's `directory`, and keeps their texts; on success both are on disk. After
// a failure none of the lines is in the file. An unfinished line of a killed process stays a line of its own.
Status AppendHistory(const std::string& directory, const std::vector<HistoryEntry>& entries,
                     base::FileSystem& files = base::FileSystem::Real());

// Selects histories, and limits the memory for them. A line has at most 256 KiB.
struct HistoryQuestion {
  // With an owner, only regular files of this user are read, and other files in an output base are skipped: a training
  // process needs this, because other users may write to its base. Without one, any owner is accepted.
  std::optional<uid_t> owner = std::nullopt;
  size_t lines_max = std::numeric_limits<size_t>::max();  // last lines of each history
  size_t bytes_max = size_t{256} << 20;                   // of all lines together, newest files first
  std::string word = {};                                  // lines without it are skipped; empty: none are skipped
};

// For this process's own files, within the memory budget of a training process.
HistoryQuestion OwnHistory(std::string word = {});

// One history and its directory.
struct FoundHistory {
  std::string directory;  // of the run
  History history;
  Status status = {};  // why the history is unreadable
};

// `path`: a history, the directory of a run, or an output base, whose runs are sorted by their first lines. Notes name
// the file concerned; an unreadable history in an output base becomes a note as well.
Result<std::vector<FoundHistory>> FindHistories(const std::string& path, const HistoryQuestion& question = {},
                                                base::FileSystem& files = base::FileSystem::Real());

// The text with this hash kept by the run's history. `owner`: as in a HistoryQuestion.
Result<std::string> KeptConfig(const std::string& directory, const std::string& sha256,
                               std::optional<uid_t> owner = std::nullopt,
                               base::FileSystem& files = base::FileSystem::Real());

}  // namespace stepwatch::output
