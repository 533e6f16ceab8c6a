// What a front end hangs on the model while a plan is in force.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepwatch/record_layout.h"

namespace stepwatch {

// What a plan asks of a front end beside its sites. On a rank that module_ranks leaves out nothing is to be collected,
// but the run is to end where it ends on the others, which would otherwise wait for this one for ever.
struct FrontEndRequests {
  bool structure = false;             // print_struct: hand over the model's structure, once
  bool exit_after_structure = false;  // print_struct: then end the run; on every rank
  bool stacks = false;                // stack_info: hand over from where each module is called, once
  // For the structure and the stacks, one for each of SiteIndex::modules: the name that the module has in rows, but
  // never shortened. Unset: it only calls a module of the same name, and is left out. Empty if neither is wanted.
  std::vector<std::optional<std::string>> module_names{};
  bool communication = false;  // cc_distribution: watch communication operators
  // Only say from where operators are called in one step, then end the run; on every rank.
  bool communication_log_only = false;
  // Calls from these places alone, as regular expressions searched in their stacks; empty: all calls.
  std::vector<std::string> communication_codeline{};
  bool batch_first_attention = false;  // inputs of attention are b,s,h,d; otherwise s,b,h,d
};

class HookTable {
 public:
  virtual ~HookTable() = default;
  // Step thread, between two steps: from the next step on exactly the sites of `layout` are wanted (null: none), and
  // what `requests` say beside them. Both stay valid until the next Swap has returned. Must not throw, nor allocate
  // what could be prepared at attach.
  virtual void Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept = 0;
};

}  // namespace stepwatch
