// The verbs that change the config file, as the command line knows them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace stepwatch::cli {

// Adds the option --if-match.
void AddIfMatch(CLI::App* verb, std::string* if_match);

// Adds `start`, `stop` and `apply`. The verb that is called puts its exit code there.
void AddEditVerbs(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
