// Scripts with which shells complete the words of a command line.
#pragma once

#include <string>

#include "controller/cli/app_words.h"

namespace stepwatch::cli {

// The verb by which the scripts ask for the names of running jobs, one on a line.
inline constexpr const char* kJobNamesVerb = "job-names";

std::string BashCompletion(const AppWords& app);
std::string ZshCompletion(const AppWords& app);
std::string FishCompletion(const AppWords& app);

}  // namespace stepwatch::cli
