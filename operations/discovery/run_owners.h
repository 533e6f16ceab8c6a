// The owner of each run, so that no user's process can report for a run of another user. Lives on the loop's thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>

namespace stepwatch::operations {

// The first user with a process of a run owns its name. Reports of other users under this name go to a run of their
// own, which is watched as well.
class RunOwners {
 public:
  // Limit of runs of one user; beyond it, the run with the oldest report is forgotten.
  static constexpr size_t kRunsMax = 4096;
  // A run without a report for this long has no owner any more.
  static constexpr double kSecondsMax = 7 * 86400.0;

  // The name for reports on `run` by a process of this user, at `now`; empty: too many users report it.
  std::string NameFor(const std::string& run, uid_t uid, double now);

 private:
  struct Owned {
    uid_t uid = 0;
    double named_t = 0;
  };
  void MakeRoomFor(uid_t uid);

  std::map<std::string, Owned> runs_;
  std::map<uid_t, size_t> counts_;
};

}  // namespace stepwatch::operations
