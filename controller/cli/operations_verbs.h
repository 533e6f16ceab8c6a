// The verbs that ask stepwatchd: runs, incidents, ack, silence, why.
#pragma once

namespace CLI {
class App;
}

namespace stepwatch::cli {

void AddOperationsVerbs(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
