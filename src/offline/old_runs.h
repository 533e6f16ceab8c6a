// The runs in an output base, and their removal, whole and by descriptor: links are not followed, other file systems
// not entered, and unknown content is left alone.
#pragma once

#include <cstdint>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "src/base/file_system.h"
#include "src/base/process_identity.h"
#include "stepwatch/status.h"

namespace stepwatch::offline {

// All directories of one run id, one for each rank.
struct StoredRun {
  struct Directory {
    std::string name;
    int rank = 0;
    base::ProcessIdentity process;  // the writing process, alive or dead
    std::time_t changed = 0;        // the newest change of any content
  };

  std::string run_id;
  std::vector<Directory> directories;
  uint64_t bytes = 0;
  std::time_t changed = 0;
  std::string left_alone;  // why only a person may remove it; empty: removable
};

// Another entry that resembles a run, or a part of one.
struct StrangeEntry {
  std::string name;
  std::string why;
};

struct StoredRuns {
  std::vector<StoredRun> runs;         // oldest first
  std::vector<std::string> leftovers;  // of an interrupted removal: directories that were renamed
  std::vector<StrangeEntry> strange;
};

// Not thread-safe.
class RunStore {
 public:
  // `files` must outlive the store.
  static Result<RunStore> Open(const std::string& base, base::FileSystem& files = base::FileSystem::Real());

  Result<StoredRuns> List();
  // A run directory has manifest.json, and only files that a run writes. Before the removal all directories of the run
  // are checked again: if one has changed, or has unknown content, all are kept. Then they are renamed, at once as far
  // as readers can see, and their files deleted. An interrupted removal leaves leftovers.
  Status Remove(const StoredRun& run);
  Status RemoveLeftover(const std::string& name);

 private:
  struct Contents {
    uint64_t bytes = 0;
    std::time_t changed = 0;
    std::string strange;  // why it is left alone
  };

  RunStore(std::string base, base::UniqueFd fd, base::FileSystem& files)
      : base_(std::move(base)), fd_(std::move(fd)), files_(&files) {}

  Result<base::UniqueFd> OpenDirectory(int parent, const std::string& name) const;
  void Inspect(int directory, int depth, Contents* contents) const;
  Contents Inspect(const std::string& name) const;
  bool HasMountBelow(const std::string& name) const;
  Status Empty(int directory, int depth) const;

  std::string base_;
  base::UniqueFd fd_;
  base::FileSystem* files_;
  dev_t device_ = 0;
  std::vector<std::string> mounts_;  // below the base, absolute
};

// Selects the runs to remove.
struct RetentionRule {
  std::time_t now = 0;
  std::time_t older_than = -1;  // seconds since the last change; -1: any age
  int64_t keep_bytes = -1;      // the oldest are removed until at most this is left; -1: any size
};

struct RunVerdict {
  enum class Kind : uint8_t { kKept, kLive, kLeftAlone, kRemoved };
  Kind kind = Kind::kKept;
  std::string why;
};

// A run of another machine, or of a container, counts as live for this time after its last change: a running monitor
// rewrites its manifest every hour.
inline constexpr std::time_t kSilentUntilDead = 24 * 3600;

// Why the run counts as live; empty: it is over. `answering`: ids of the runs that respond at their control sockets.
std::string WhyLive(const StoredRun& run, const std::set<std::string>& answering, std::time_t now,
                    base::FileSystem& files = base::FileSystem::Real());

// One verdict for each run. Pure. `why_live` holds one text for each run, in order.
std::vector<RunVerdict> Judge(const std::vector<StoredRun>& runs, const std::vector<std::string>& why_live,
                              const RetentionRule& rule);

}  // namespace stepwatch::offline
