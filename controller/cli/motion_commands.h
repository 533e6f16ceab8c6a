// `stepwatch pause`, `resume` and `rotate`: what acts on a running job and leaves its config file alone.
#pragma once

#include <string>

namespace stepwatch::cli {

struct MotionArguments {
  std::string job;  // see FindJob; empty: the only one
  bool json = false;
};

// 0: done; 2: several jobs could be meant; 5: not possible here, or asked for and not done yet; 6: no such job, or it
// does not answer; 7: it was so already.
int RunPause(const MotionArguments& arguments);
int RunResume(const MotionArguments& arguments);
int RunRotate(const MotionArguments& arguments);

}  // namespace stepwatch::cli
