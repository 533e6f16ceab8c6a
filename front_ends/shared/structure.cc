#include "front_ends/shared/structure.h"

#include <algorithm>
#include <utility>

namespace stepwatch::front_end {
namespace {

// Gradients arrive one by one; a missing one stays "no tensor". There may be more than the tensors of the forward pass,
// since an argument that is not a tensor has a number as well.
void SetGradient(PortStructure* port, size_t expected, size_t element, std::string description) {
  const size_t count = std::max({expected, element + 1, port->elements.size()});
  port->config = "tuple[" + std::to_string(count) + "]";
  port->elements.resize(count, kNoTensor);
  port->elements[element] = std::move(description);
}

}  // namespace

std::string TupleText(const int64_t* sizes, size_t count) {
  std::string text = "(";
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return text + (count == 1 ? ",)" : ")");
}

std::string DescribeView(const TensorView& view) {
  return "size=" + TupleText(view.sizes.data(), static_cast<size_t>(view.ndim)) + ", dtype=" + DTypeName(view.dtype);
}

int StructureRecorder::AddForward(std::string key, PortStructure input, PortStructure output) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const ModuleStructure& module : modules_)
    if (module.key == key) return -1;
  modules_.push_back({std::move(key), std::move(input), std::move(output), {}, {}});
  return static_cast<int>(modules_.size()) - 1;
}

void StructureRecorder::AddGradient(int entry, bool is_input, size_t element, std::string description) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ModuleStructure& module = modules_.at(static_cast<size_t>(entry));
  const PortStructure& port = is_input ? module.input : module.output;
  SetGradient(is_input ? &module.input_grad : &module.output_grad, port.elements.size(), element,
              std::move(description));
}

bool StructureRecorder::empty() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return modules_.empty();
}

std::vector<ModuleStructure> StructureRecorder::Modules() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return modules_;
}

}  // namespace stepwatch::front_end
