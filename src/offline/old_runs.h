// The runs that lie in an output base, and their removal, whole and by descriptor: no link is followed, no other file
// system is entered, and what is not understood is left alone.
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
    base::ProcessIdentity process;  // that writes, or wrote, there
    std::time_t changed = 0;        // the newest change of anything in it
  };

  std::string run_id;
  std::vector<Directory> directories;
  uint64_t bytes = 0;
  std::time_t changed = 0;
  std::string left_alone;  // why nobody but a person may remove it; empty: it is understood
};

// Something else that looks like a run's, or part of one.
struct StrangeEntry {
  std::string name;
  std::string why;
};

struct StoredRuns {
  std::vector<StoredRun> runs;         // oldest first
  std::vector<std::string> leftovers;  // of a removal that was interrupted: directories without their names
  std::vector<StrangeEntry> strange;
};

// Not thread-safe.
class RunStore {
 public:
  // `files` outlives the store.
  static Result<RunStore> Open(const std::string& base, base::FileSystem& files = base::FileSystem::Real());

  Result<StoredRuns> List();
  // A directory of ours has manifest.json, and nothing but what a run writes. Before anything is removed all
  // directories of the run are looked at again: one that has changed, or is not understood, keeps all of them. Then
  // they lose their names, all at once as far as readers can see, and then their files. An interrupted removal leaves
  // leftovers.
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

// Which runs a rule lets go.
struct RetentionRule {
  std::time_t now = 0;
  std::time_t older_than = -1;  // seconds since the last change; -1: age does not matter
  int64_t keep_bytes = -1;      // the oldest go until no more than this is left; -1: size does not matter
};

struct RunVerdict {
  enum class Kind : uint8_t { kKept, kLive, kLeftAlone, kRemoved };
  Kind kind = Kind::kKept;
  std::string why;
};

// A run of another machine, or of a container, counts as live for so long after its last change: a running monitor
// writes its manifest anew every hour.
inline constexpr std::time_t kSilentUntilDead = 24 * 3600;

// Why the run counts as live; empty: it is over. `answering`: ids of the runs that answer at their control sockets.
std::string WhyLive(const StoredRun& run, const std::set<std::string>& answering, std::time_t now,
                    base::FileSystem& files = base::FileSystem::Real());

// One verdict for each run. Pure. `why_live` belongs to the runs, in their order.
std::vector<RunVerdict> Judge(const std::vector<StoredRun>& runs, const std::vector<std::string>& why_live,
                              const RetentionRule& rule);

}  // namespace stepwatch::offline
