// The text of module_struct.json: what goes into and comes out of every module, as seen in one step.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace stepwatch::front_end {

// What was seen at one port of a module: "tensor", "tuple[2]", "list[1]", and a description per element.
struct PortStructure {
  std::string config;
  std::vector<std::string> elements;  // "size=(5, 4), dtype=torch.float32" or kNoTensor

  bool empty() const { return config.empty(); }
};
inline constexpr const char* kNoTensor = "<class 'NoneType'>";

struct ModuleStructure {
  std::string key;  // "0:fc", "0:" for the root
  PortStructure input;
  PortStructure output;
  PortStructure input_grad;
  PortStructure output_grad;
};

// A port that was not seen is an empty object. Indented by 2.
std::string StructureJson(const std::deque<ModuleStructure>& modules);

// Python's text of a tuple: (), (5,), (5, 4).
std::string TupleText(const int64_t* sizes, size_t count);

// Gathers the first call of every module, in order of completion. Safe from several threads.
class StructureRecorder {
 public:
  // The entry's number for AddGradient; -1: this module has one already.
  int AddForward(std::string key, PortStructure input, PortStructure output);
  void AddInputGradient(int entry, size_t element, std::string description);
  void AddOutputGradient(int entry, size_t element, std::string description);
  std::string Json() const;
  bool empty() const;

 private:
  mutable std::mutex mutex_;
  std::deque<ModuleStructure> modules_;
};

}  // namespace stepwatch::front_end
