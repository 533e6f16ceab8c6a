// The verbs that tell of the command line itself: completion for shells, manual pages.
#pragma once

namespace CLI {
class App;
}

namespace stepwatch::cli {

// After all other verbs: what they print is made of the verbs of `app`, which outlives the call of them.
void AddTextVerbs(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
