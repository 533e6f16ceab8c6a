// `stepwatch start`, `stop`, `apply` and `rollback`: they change a config file, whether or not a job runs. If one
// watches just this file, they go through its control socket, and say what it makes of the change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/cli/remote_edit.h"

namespace stepwatch::cli {

struct SwitchArguments {
  std::string target;    // a config file or a job; empty: the only job
  std::string if_match;  // empty: whatever the file holds
  WaitArguments wait;
  bool json = false;
};

struct ApplyArguments {
  std::string file;
  std::string config;  // as SwitchArguments::target
  std::string if_match;
  WaitArguments wait;
  bool dry_run = false;
  bool is_volatile = false;        // the file is left alone: the job runs the text until the file changes
  std::optional<int64_t> at_step;  // the job begins with it then
  bool json = false;
};

struct RollbackArguments {
  uint32_t plan_id = 0;  // 0: the last one with another config than the one that ran last
  std::string config;    // as SwitchArguments::target
  std::string
      history;  // a history, or a directory with one or several; empty: where the job writes, or the output base
  std::string if_match;
  WaitArguments wait;
  bool json = false;
};

// 0: done; 2: the config is unusable, or has no "dynamic_on", or there is no such plan; 3: the config holds something
// else than it should, or somebody saved it at the same moment; 4: refused by the job, or superseded; 5: the config
// cannot be written, or it has not come in time as far as it was waited for; 6: no such job, or it is gone; 7: the
// config says so already.
int RunStart(const SwitchArguments& arguments);
int RunStop(const SwitchArguments& arguments);
int RunApply(const ApplyArguments& arguments);
int RunRollback(const RollbackArguments& arguments);

}  // namespace stepwatch::cli
