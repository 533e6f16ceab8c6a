// `stepwatch prune`: removes old runs of an output base.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace stepwatch::cli {

struct PruneArguments {
  std::string directory;
  int64_t older_than = -1;  // seconds; -1: age does not matter
  int64_t keep_bytes = -1;  // -1: size does not matter
  bool yes = false;
  bool json = false;
};

int RunPrune(const PruneArguments& arguments);
void AddPrune(CLI::App* app, int* exit_code);

}  // namespace stepwatch::cli
