// The verbs about the history of a run, as the command line knows them.
#pragma once

namespace CLI {
class App;
}

namespace stepwatch::cli {

// Adds `history`, `show` and `rollback`. The verb that is called puts its exit code there.
void AddHistoryVerbs(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
