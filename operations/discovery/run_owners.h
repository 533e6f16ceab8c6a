// The owner of each run, so that no user's process speaks for a run of another's. Lives on the loop's thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>

namespace stepwatch::operations {

// The user whose process is the first to be of a run has its name. What another user's processes say of a run of this
// name is that of a run of its own, which is watched as well.
class RunOwners {
 public:
  // The runs of one user; beyond them, the run that was heard longest ago is forgotten.
  static constexpr size_t kRunsMax = 4096;
  // A run that nobody has named for so long has no owner any more.
  static constexpr double kSecondsMax = 7 * 86400.0;

  // The name for what a process of this user says of `run`, at `now`; empty: too many users have named it.
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
