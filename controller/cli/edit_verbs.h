// The verbs that change the config file, as the command line knows them.
#pragma once

namespace CLI {
class App;
}

namespace stepwatch::cli {

// Adds `start`, `stop`, `apply` and `rollback`. The verb that is called puts its exit code there.
void AddEditVerbs(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
