// The verbs that act on a running job and leave its config file alone.
#pragma once

#include <CLI/CLI.hpp>

namespace stepwatch::cli {

void AddMotionVerbs(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
