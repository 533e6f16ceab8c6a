// Data of print_struct: inputs and outputs of every module, as seen in one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "stepwatch/module_structure.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch::front_end {

// Formats sizes as Python formats a tuple: (), (5,), (5, 4).
std::string TupleText(const int64_t* sizes, size_t count);
// "size=(5, 4), dtype=torch.float32"
std::string DescribeView(const TensorView& view);

// Collects the first call of every module, in order of completion. Thread-safe.
class StructureRecorder {
 public:
  // Returns the entry's number for the gradients, or -1 if the module has an entry already.
  int AddForward(std::string key, PortStructure input, PortStructure output);
  void AddGradient(int entry, bool is_input, size_t element, std::string description);
  std::vector<ModuleStructure> Modules() const;
  bool empty() const;

 private:
  mutable std::mutex mutex_;
  std::vector<ModuleStructure> modules_;
};

}  // namespace stepwatch::front_end
