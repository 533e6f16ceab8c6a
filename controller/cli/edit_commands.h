// `stepwatch start FILE`, `stop FILE` and `apply FILE --config TARGET`: they change the config file, whether or not a
// job runs. A job that does takes the change up as it takes up every edit.
#pragma once

#include <string>

namespace stepwatch::cli {

struct SwitchArguments {
  std::string file;
  std::string if_match;  // empty: whatever the file holds
  bool json = false;
};

struct ApplyArguments {
  std::string file;
  std::string config;
  std::string if_match;
  bool json = false;
};

// A text that FILE need not be.
struct ApplyTextArguments {
  std::string name;  // for messages
  std::string text;
  std::string config;
  std::string if_match;
  bool json = false;
};

// 0: written; 2: the config is unusable, or has no "dynamic_on"; 3: the config holds something else than it should, or
// somebody saved it at the same moment; 5: the config cannot be written; 7: it says so already.
int RunStart(const SwitchArguments& arguments);
int RunStop(const SwitchArguments& arguments);
int RunApply(const ApplyArguments& arguments);
int ApplyText(const ApplyTextArguments& arguments);

}  // namespace stepwatch::cli
