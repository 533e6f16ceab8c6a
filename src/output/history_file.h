// The files of a run's history: stepwatch_history.jsonl, and stepwatch_configs/{sha256}.json with each text that its
// lines speak of, once.
#pragma once

#include <memory>
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

// One history and where it lies.
struct FoundHistory {
  std::string directory;  // of the run
  History history;
};

// `path`: a history, the directory of a run, or an output base, whose runs come in the order of their first lines.
// Notes name the file that they are about; what cannot be read of an output base is a note as well.
Result<std::vector<FoundHistory>> FindHistories(const std::string& path);

// The text with this hash that the run's history keeps.
Result<std::string> KeptConfig(const std::string& directory, const std::string& sha256);

}  // namespace stepwatch::output
