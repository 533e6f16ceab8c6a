// Interface through which a plan switches the hooks of a front end on and off.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stepwatch/record_layout.h"

namespace stepwatch {

// Requests of a plan to a front end, beside its sites. A rank that module_ranks excludes collects nothing but must end
// the run where the other ranks end it; otherwise they wait for it forever.
struct FrontEndRequests {
  bool structure = false;             // print_struct: publish the model's structure, once
  bool exit_after_structure = false;  // print_struct: then end the run; set on every rank
  bool stacks = false;                // stack_info: publish the call stack of each module, once
  // For structure and stacks: the row name, never shortened, of each entry of SiteIndex::modules. Unset: this module
  // only calls a module of the same name and is left out. Empty vector: neither is requested.
  std::vector<std::optional<std::string>> module_names{};
  bool communication = false;  // cc_distribution: watch communication operators
  // Only report the call stacks of communication operators in one step, then end the run; set on every rank.
  bool communication_log_only = false;
  // Regular expressions searched in the call stacks; only matching calls are watched. Empty: all calls.
  std::vector<std::string> communication_codeline{};
  bool batch_first_attention = false;  // attention inputs are b,s,h,d; otherwise s,b,h,d
};

class HookTable {
 public:
  virtual ~HookTable() = default;
  // Step thread, between two steps. From the next step on the front end watches exactly the sites of `layout` (null: no
  // site) and follows `requests`. Both stay valid until the next Swap has returned. Must not throw, nor allocate memory
  // that attach could allocate.
  virtual void Swap(const RecordLayout* layout, const FrontEndRequests& requests) noexcept = 0;
};

}  // namespace stepwatch
