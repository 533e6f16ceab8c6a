// What a plan asks of a front end beside its sites.
#pragma once

#include <string>
#include <vector>

namespace stepwatch {

// On a rank that module_ranks leaves out nothing is to be collected,
// but the run is to end where it ends on the others, which would otherwise wait for this one for ever.
struct FrontEndRequests {
  bool structure = false;             // print_struct: hand over the model's structure, once
  bool exit_after_structure = false;  // print_struct: then end the run; on every rank
  bool stacks = false;                // stack_info: hand over from where each module is called, once
  bool communication = false;         // cc_distribution: watch communication operators
  // Only say from where operators are called in one step, then end the run; on every rank.
  bool communication_log_only = false;
  // Calls from these places alone, as regular expressions searched in their stacks; empty: all calls.
  std::vector<std::string> communication_codeline{};
  bool batch_first_attention = false;  // inputs of attention are b,s,h,d; otherwise s,b,h,d
};

}  // namespace stepwatch
