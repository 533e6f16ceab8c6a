// The exit codes of `stepwatch`, the same for all verbs.
#pragma once

namespace stepwatch::cli {

enum ExitCode : int {
  kExitDone = 0,
  kExitDiffers = 1,  // plan: something would change
  kExitInvalid = 2,  // the config or the command line is unusable
  kExitConflict = 3,
  kExitNotAgreed = 4,
  kExitDegraded = 5,  // done, but not all of it
  kExitUnreachable = 6,
  kExitNoChange = 7,
  kExitNoStepwatchd = 8,
};

}  // namespace stepwatch::cli
