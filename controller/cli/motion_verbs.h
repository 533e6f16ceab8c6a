// The verbs that act on a running job and leave its config file alone.
#pragma once

namespace CLI {
class App;
}

namespace stepwatch::cli {

void AddMotionVerbs(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
